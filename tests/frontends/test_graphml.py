# SPDX-License-Identifier: Apache-2.0
"""GraphML files of networkx and others, and XML constructs that are refused."""

from __future__ import annotations

import io

import networkx as nx
import pytest
from support.graph_files import GRAPHML, cost_of, refused

from syclsched.frontends import Limits, Units, parse_graph
from syclsched.model.cost_only import StatedCost

HEAD = '<graphml><key id="c" for="node" attr.name="cost"><default>1</default></key>'


def test_the_sample() -> None:
    graph = parse_graph(GRAPHML.encode(), where="x.graphml", units=Units(1.0))
    assert graph.name == "G"
    assert cost_of(graph, "a") == StatedCost(2.5)
    assert cost_of(graph, "b") == StatedCost(4.0, {"gpu": 1e-3})
    assert {a.name: a.nbytes for a in graph.arrays.values()} == {"a->b": 17}
    assert graph.edges == ()


def test_files_written_by_networkx_are_read() -> None:
    digraph = nx.DiGraph()
    digraph.add_node("x", cost=1.5, seconds_cpu=2.0, colour="red")
    digraph.add_node("y", cost=2, family="gemm")
    digraph.add_edge("x", "y", weight=3.5, bytes=5)
    file = io.BytesIO()
    nx.write_graphml(digraph, file)
    graph = parse_graph(file.getvalue(), where="x.graphml", units=Units(1.0))
    assert cost_of(graph, "x") == StatedCost(1.5, {"cpu": 2.0})
    assert graph.find_task("y").family == "gemm"
    assert {a.name: a.nbytes for a in graph.arrays.values()} == {"x->y": 5}


def test_attributes_in_any_case_or_of_any_name() -> None:
    digraph = nx.DiGraph()
    digraph.add_node("x", Time=1.5, Weight=9.0, Time_gpu=0.5)
    digraph.add_node("y", Time=2.0, Weight=8.0)
    digraph.add_edge("x", "y", Data=3.0, Weight=7.0)
    file = io.BytesIO()
    nx.write_graphml(digraph, file)
    found = parse_graph(file.getvalue(), where="x.graphml", units=Units(1.0, 1.0))
    assert cost_of(found, "x") == StatedCost(9.0)
    assert [a.nbytes for a in found.arrays.values()] == [7]
    units = Units(1.0, 1.0, task_cost="Time", edge_cost="Data")
    found = parse_graph(file.getvalue(), where="x.graphml", units=units)
    assert cost_of(found, "x") == StatedCost(1.5, {"gpu": 0.5})
    assert [a.nbytes for a in found.arrays.values()] == [3]


def test_other_encodings() -> None:
    text = GRAPHML.replace("UTF-8", "ISO-8859-1").replace('id="a"', 'id="ä"').replace('source="a"', 'source="ä"')
    graph = parse_graph(text.encode("latin-1"), where="x.graphml")
    assert [t.name for t in graph.tasks] == ["ä", "b"]


BOMB = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph edgedefault="directed"><node id="&b;"/></graph></graphml>"""
READER = """<?xml version="1.0"?>
<!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<graphml><graph edgedefault="directed"><node id="a"><data>&a;</data></node></graph></graphml>"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOMB, "x.graphml, line 2: a document type declaration, expected none"),
        (READER, "line 2: a document type declaration"),
        ("<!DOCTYPE graphml SYSTEM 'http://example.org/x.dtd'><graphml/>", "document type declaration"),
        ('<graphml>\n<graph edgedefault="directed">\n<node id="&a;"/></graph></graphml>', "line 3: it is not XML"),
        ("", "it is not XML: no element found"),
        ("<graphml>", "not XML"),
        ("<html/>", "the document is <html>, expected <graphml>"),
        ("<?xml version='1.0' encoding='nonsense'?><graphml/>", "encoding"),
        ("<graphml><graph/></graphml>", "edgedefault is None, expected 'directed'"),
        ('<graphml><graph edgedefault="undirected"/></graphml>', "edgedefault is 'undirected'"),
        ('<graphml><graph edgedefault="directed"/><graph edgedefault="directed"/></graphml>', "a second graph"),
        (HEAD + '<graph edgedefault="directed"><node/></graph></graphml>', "<node> has no id"),
        (
            HEAD + '<graph edgedefault="directed"><node id="a"/>\n<node id="a"/></graph></graphml>',
            "line 2: task 'a' is",
        ),
        (HEAD + '<graph edgedefault="directed"><node id="a"/>\n<edge source="a"/></graph></graphml>', "no target"),
        (
            HEAD + '<graph edgedefault="directed"><node id="a"/>\n<edge source="a" target="b"/></graph></graphml>',
            "line 2: no task 'b'",
        ),
        (
            HEAD + '<graph edgedefault="directed"><node id="a"/><edge source="a" target="a" directed="false"/>'
            "</graph></graphml>",
            "an edge without direction",
        ),
        (HEAD + '<graph edgedefault="directed"><node id="a"><graph/></node></graph></graphml>', "one plain graph"),
        (HEAD + '<graph edgedefault="directed"><hyperedge/></graph></graphml>', "<hyperedge>"),
        (HEAD + '<graph edgedefault="directed"><node id="a"><data key="z"/></node></graph></graphml>', "no key 'z'"),
        (HEAD + '<graph edgedefault="directed"><node id="a"><data key="c">?</data></node></graph></graphml>', "'?'"),
        ('<graphml><graph edgedefault="directed">\n<node id="a"/></graph></graphml>', "line 2: task 'a' has no cost"),
        ('<graphml><key id="a"/><key id="a"/></graphml>', "key 'a' is declared twice"),
        (HEAD + "<x>" * 200, "nested more than 100 deep"),
    ],
)
def test_errors_name_their_line(text: str, expected: str) -> None:
    assert expected in refused(text, "x.graphml")


def test_limits_hold_while_reading() -> None:
    # The file has no end: it is refused at the first node too many.
    text = HEAD + '<graph edgedefault="directed">' + "".join(f'<node id="n{i}"/>' for i in range(100))
    assert "more than 99 tasks" in refused(text, "x.graphml", Limits(tasks=99))
    text += "".join(f'<edge source="n0" target="n{i}"/>' for i in range(1, 50))
    assert "more than 40 edges" in refused(text, "x.graphml", Limits(edges=40))
