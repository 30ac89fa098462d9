import importlib.util, os, py_compile, sys, zipfile

root, target = sys.argv[1], sys.argv[2]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
with zipfile.ZipFile(target, "w") as archive:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ("test", "tests", "__pycache__"))
        for name in sorted(files):
            if not name.endswith(".py"):
                continue
            source = os.path.join(folder, name)
            shown = os.path.relpath(source, root)
            try:
                py_compile.compile(source, "/tmp/one.pyc", shown, doraise=True, invalidation_mode=mode)
                with open("/tmp/one.pyc", "rb") as file:
                    compiled = file.read()
            except (py_compile.PyCompileError, OSError, ValueError, RecursionError):
                continue
            place = importlib.util.cache_from_source(shown, optimization="")
            archive.writestr(zipfile.ZipInfo(place, (1980, 1, 1, 0, 0, 0)), compiled)
