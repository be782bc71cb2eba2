"""An index of a workspace's Python files: which module classes there are, where and with what they are constructed and
called, what contains them, and which of them somebody means to capture as a graph.

    index = Index("/path/to/workspace")
    index.build()
    index.answer("/path/to/workspace/models/net.py", "Net")    # Answer(constructions=[Example("Net(3, 10)", …)], …)

Built by reading; nothing is executed.  From below: `facts` are what one file says (kept on disk by `store`), `symbols`
what its names mean across files, `runs` read scripts with values in place of objects (`values`, `machine`,
`expressions`, `statements`, `calls` and the tables beside them), `entries` finds the scripts that lead to a class,
`answers` collects what happened to it there.  `client` and `service` put all of it in a process of its own.
"""
