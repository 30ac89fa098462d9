# Runs a user's tests against a program on trial, and leaves a record only once they are through: see the
# harness for Python. The tests find the program in $SOLUTION, to be sourced or run.
exec 9<&0 </dev/null
SOLUTION=/tmp/code.sh
export SOLUTION
set -e
source /tmp/tests.sh
set +e
read -r record <&9
printf '{"passed": 1, "failed": []}' >"/tmp/$record"
