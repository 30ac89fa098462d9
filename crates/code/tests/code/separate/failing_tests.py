import unittest

import solution


class Tests(unittest.TestCase):
    def test_right(self):
        self.assertEqual(solution.add(1, 2), 3)

    def test_wrong(self):
        self.assertEqual(solution.add(1, 2), 4)

    def test_error(self):
        solution.add(1, "x")

    def test_replaced_function(self):
        solution.add = lambda one, two: 4

    @unittest.skip("of the tests")
    def test_skipped(self):
        pass


class AsyncTests(unittest.IsolatedAsyncioTestCase):
    async def test_awaits(self):
        self.assertEqual(await solution.double(2), 4)
