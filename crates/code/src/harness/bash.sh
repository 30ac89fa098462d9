# Runs a user's tests against a program; python.py explains the method. $SOLUTION is the path of the program, which the
# tests source or run. The tests run in a child shell, which reports its progress on file descriptor 8. The parent shell
# writes the report, because the child shell must not have the name of the report file.
IFS= read -r assize_record
assize_tests=$(cat)
printf '%s\n' "$assize_tests" >/tmp/tests.sh

text() { # TEXT
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//[[:cntrl:]]/ }"
}

leave() { # PASSED FAILED BROKEN, the last two as JSON
    printf '{"passed": %d, "failed": [%s], "broken": %s}' "$1" "$2" "$3" >"/tmp/$assize_record"
}

if ! wrong=$(bash -n /tmp/tests.sh 2>&1); then
    leave 0 '' "$(text "$wrong")"
    exit 1
fi

read -r -d '' child <<'CHILD'
export SOLUTION=/tmp/code.sh
assize_test='the test file'
# Makes any failing command end the tests, even if the sourced program has changed the options or traps of the shell.
assize_arm() {
    set -eE
    trap '[[ $BASH_SUBSHELL -gt 0 ]] || assize_fail "$LINENO" "$BASH_COMMAND"; exit 1' ERR
}
assize_fail() { # LINE COMMAND
    printf 'failed\t%s\tline %s: %s\n' "$assize_test" "$1" "${2//[[:cntrl:]]/ }" >&8
}
source() {
    builtin source "$@"
    assize_arm
}
.() {
    builtin source "$@"
    assize_arm
}
assize_arm
builtin source /tmp/tests.sh
shopt -s extdebug
builtin mapfile -t assize_all < <(builtin compgen -A function test || true)
for assize_test in "${assize_all[@]}"; do
    assize_where=$(declare -F "$assize_test")
    [[ $assize_where == *' /tmp/tests.sh' ]] || continue
    assize_arm
    "$assize_test"
    printf 'passed\t%s\n' "$assize_test" >&8
done
printf 'through\n' >&8
CHILD

exec 7>&1
passed=0 failed='' through=no
while IFS=$'\t' read -r what name error; do
    case $what in
    passed) passed=$((passed + 1)) ;;
    failed) failed="{\"name\": $(text "$name"), \"error\": $(text "$error")}" ;;
    through) through=yes ;;
    esac
done < <(exec bash -c "$child" 8>&1 >&7 7>&- </dev/null)
wait $!
ended=$?
if [ -n "$failed" ]; then
    leave "$passed" "$failed" null
    exit 1
fi
[ "$through" = yes ] && [ "$ended" = 0 ] || exit "$ended"
# A test file with only plain commands, without test functions, counts as one passed test.
[ "$passed" -gt 0 ] || passed=1
leave "$passed" '' null
