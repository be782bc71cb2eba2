"""The pass manager runs, orders and repeats passes as that of torch.fx does."""

import torch

from .both import assert_same


def test_pass_manager_of_pass_results():
    def scenario(side):
        infra = side("passes.infra.pass_manager")
        Result = side("passes.infra.pass_base").PassResult

        def swap(old, new):
            def run(gm):
                found = [node for node in gm.graph.nodes if node.target is old]
                for node in found:
                    node.target = new
                gm.recompile()
                return Result(gm, bool(found))

            run.__name__ = f"to_{new.__name__}"
            return run

        first, second = swap(torch.add, torch.mul), swap(torch.mul, torch.sub)
        for steps in (1, 3):
            manager = infra.PassManager(passes=[second, first], steps=steps)
            result = manager(side().symbolic_trace(lambda x, y: torch.add(x, y)))
            side.report(result.modified, result.graph_module.code)
        before = infra.this_before_that_pass_constraint(first, second)
        manager = infra.PassManager(passes=[second, first], constraints=[before])
        manager.solve_constraints()
        side.report([run.__name__ for run in manager.passes])
        side.attempt(
            lambda: infra.PassManager(
                passes=[first, second], constraints=[before, infra.this_before_that_pass_constraint(second, first)]
            ).solve_constraints()
        )

        def broken(gm):
            raise ValueError("no")

        side.attempt(lambda: infra.PassManager(passes=[broken])(side().symbolic_trace(lambda x: torch.relu(x))))
        traced = side().symbolic_trace(lambda x: torch.relu(x))
        side.attempt(lambda: infra.PassManager(passes=[lambda gm: None])(traced))

        def check(gm):
            raise RuntimeError("unsound")

        manager = infra.PassManager(passes=[first], run_checks_after_each_pass=True)
        manager.add_checks(check)
        side.attempt(lambda: manager(side().symbolic_trace(lambda x, y: torch.add(x, y))))
        side.attempt(lambda: manager.add_checks(lambda: None))

    assert_same(scenario, at_least=7)
