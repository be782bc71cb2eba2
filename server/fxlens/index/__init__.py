"""An index of a workspace's Python files: its module classes, how and where they are constructed and called, what
contains them, and which are meant to be captured as a graph.

    index = Index("/path/to/workspace")
    index.build()
    index.answer("/path/to/workspace/models/net.py", "Net")    # Answer(constructions=[Example("Net(3, 10)", …)], …)

Built by reading; nothing is executed. Bottom up: `facts` are the contents of one file (kept on disk by `store`),
`symbols` resolve its names across files, `runs` interpret scripts with abstract values in place of objects (`values`,
`machine`, `expressions`, `statements`, `calls` and their tables), `entries` finds the scripts that lead to a class,
`answers` collects the events of a class there. `client` and `service` run all of it in a separate process.
"""
