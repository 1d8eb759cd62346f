from .check import check_module, module_names
for m in module_names():
    r = check_module(m)
    print(m, len(r.evaluated))
    for p in r.problems: print('   ', p)
