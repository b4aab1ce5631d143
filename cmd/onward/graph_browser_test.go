//go:build !core

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/browser"
	"github.com/onward-ml/onward/onnx"
)

// wrongBoxes is an expression that returns faults of the drawing: boxes of one level that overlap,
// and vertical parts of edges that cross a box. Between ranks there are no boxes.
const wrongBoxes = `(() => {
  const bad = [];
  const check = level => {
    const l = level.layout, kids = level.kids;
    const boxes = kids.map((k, i) => ({k, x: l.place[i].x, y: l.place[i].y, w: k.box.w, h: k.box.h})).sort((a, b) => a.y - b.y);
    boxes.forEach((a, i) => {
      for (let j = i + 1; j < boxes.length && boxes[j].y < a.y + a.h - 0.01; j++) {
        const b = boxes[j];
        if (b.x < a.x + a.w - 0.01 && a.x < b.x + b.w - 0.01) bad.push(a.k.t + " overlaps " + b.k.t);
      }
    });
    const byTop = boxes.map(b => b.y), tallest = Math.max(0, ...boxes.map(b => b.h));
    for (const n of l.lines) {
      let i = 0, hi = byTop.length; // the first box that may reach the line
      while (i < hi) { const m = (i + hi) >> 1; if (byTop[m] < n.y0 - tallest) i = m + 1; else hi = m; }
      for (; i < boxes.length && boxes[i].y < n.y1; i++) {
        const b = boxes[i], within = (x, y0, y1) => x > b.x + 0.5 && x < b.x + b.w - 0.5 && y0 < b.y + b.h - 0.5 && y1 > b.y + 0.5;
        if (within(n.x0, n.y0, n.m0) || within(n.x1, n.m1, n.y1) || n.m0 < b.y + b.h - 0.5 && n.m1 > b.y + 0.5) bad.push("an edge crosses " + b.k.t);
      }
    }
    for (const k of kids) if (graphView.isOpen(k)) check(k);
  };
  check(graphView.top);
  return bad.slice(0, 5).join("; ");
})()`

// layeredModel has layers with an If in each, and a function.
func layeredModel(t *testing.T, layers int) string {
	t.Helper()
	b := onnx.NewModel("layered").Opset("", 21).Opset("local", 1)
	b.Input("x", onnx.Float, "n", 8).Input("flag", onnx.Bool).Output("y", onnx.Float, "n", 8)
	w := make([]float32, 64)
	for i := range w {
		w[i] = float32(i%7) - 3
	}
	b.Initializer("w", w, 8, 8)
	b.Node("Swoosh", []string{"x"}, []string{"v0"}).Domain("local").Name("/start/swoosh")
	for i := range layers {
		n := func(s string) string { return fmt.Sprintf("%s%d", s, i) }
		then, other := onnx.NewGraph("then"), onnx.NewGraph("else")
		then.Node("MatMul", []string{n("v"), "w"}, []string{n("t")}).Name(n("inner"))
		then.Output(n("t"), onnx.Float, "n", 8)
		other.Node("Neg", []string{n("v")}, []string{n("e")})
		other.Output(n("e"), onnx.Float, "n", 8)
		node := func(op, name string, in []string, out string, attrs ...onnx.Attrs) {
			b.Node(op, in, []string{out}, attrs...).Name(fmt.Sprintf("/encoder/layer.%d/%s", i, name))
		}
		node("MatMul", "dense", []string{n("v"), "w"}, n("a"))
		node("If", "choice", []string{"flag"}, n("b"), onnx.Attrs{"then_branch": then, "else_branch": other})
		node("Add", "sum", []string{n("a"), n("b")}, n("c"))
		node("Add", "skip", []string{n("c"), n("v")}, fmt.Sprint("v", i+1))
	}
	b.Node("Identity", []string{fmt.Sprint("v", layers)}, []string{"y"}).Name("last")
	f := b.Function("local", "Swoosh").Inputs("a").Outputs("b").Opset("", 21)
	f.Node("Sigmoid", []string{"a"}, []string{"s"})
	f.Node("Mul", []string{"a", "s"}, []string{"b"})
	path := filepath.Join(t.TempDir(), "layered.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// flatModel has nodes in which nothing repeats.
func flatModel(t *testing.T, nodes int) string {
	t.Helper()
	b := onnx.NewModel("flat").Opset("", 21)
	b.Input("v0", onnx.Float, 4).Output(fmt.Sprint("v", nodes), onnx.Float, 4)
	ops := []string{"Add", "Mul", "Max", "Min", "Sub"}
	seed := uint32(1)
	for i := range nodes {
		seed = seed*1664525 + 1013904223
		back := int(seed>>16) % 40
		b.Node(ops[seed>>8%5], []string{fmt.Sprint("v", i), fmt.Sprint("v", max(0, i-back))},
			[]string{fmt.Sprint("v", i+1)})
	}
	path := filepath.Join(t.TempDir(), "flat.onnx")
	if err := onnx.WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGraphInBrowser(t *testing.T) {
	p := browser.Open(t)
	path := filepath.Join(t.TempDir(), "page.html")
	open := func(t *testing.T, model string) func(expression, want string) {
		t.Helper()
		command(t, exitOK, "graph", model, "--html", path)
		seen := len(p.Log())
		if err := p.Go("file://" + path); err != nil {
			t.Fatal(err)
		}
		p.Wait(t, `typeof graphView === "object" && graphView !== null`)
		t.Cleanup(func() { // the page is the only request, and there are no errors
			if log := p.Log()[seen:]; len(log) != 1 || !strings.HasPrefix(log[0], "Network.requestWillBeSent") {
				t.Errorf("the browser reports %q", log)
			}
		})
		return func(expression, want string) {
			t.Helper()
			var got string
			if err := p.Eval("String("+expression+")", &got); err != nil || got != want {
				t.Errorf("%s is %q, %v, want %q", expression, got, err, want)
			}
		}
	}
	press := func(t *testing.T, keys ...string) {
		t.Helper()
		for _, k := range keys {
			if err := p.Press(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("layers", func(t *testing.T) {
		eval := open(t, layeredModel(t, 12))
		const selected = `(graphView.selected ? graphView.selected.n || graphView.selected.t : "")`
		eval(`graphView.items.filter(x => x.r === 12 && x.t === "encoder" && x.p === -1 && !x.open).length`, "1")
		eval(wrongBoxes, "")
		// The search opens what the node is in; Enter goes to the next one.
		eval(`(document.querySelector(".find input").focus(), document.activeElement.type)`, "search")
		press(t, "d", "e", "n", "s", "e", "Enter")
		p.Wait(t, selected+` === "/encoder/layer.0/dense"`)
		press(t, "Enter")
		p.Wait(t, selected+` === "/encoder/layer.1/dense"`)
		eval(`document.querySelector(".hits").textContent`, "2 of 12")
		eval(`["MACs", "zeros", "min", "-3"].every(s => document.querySelector(".details").textContent.includes(s)) && document.querySelector(".details svg rect") !== null`, "true")
		eval(wrongBoxes, "")
		// Keys go along the edges, and open and close.
		eval(`(document.querySelector("canvas").focus(), document.activeElement.tagName)`, "CANVAS")
		press(t, "ArrowDown")
		p.Wait(t, selected+` === "/encoder/layer.1/sum"`)
		press(t, "ArrowUp")
		eval(`(graphView.select(graphView.items.find(x => x.n === "/encoder/layer.1/choice")), graphView.isOpen(graphView.selected))`, "false")
		press(t, "Enter")
		p.Wait(t, `graphView.isOpen(graphView.selected)`)
		eval(`document.querySelector(".status").textContent.endsWith(", open")`, "true")
		var before, after float64
		if err := p.Eval(`graphView.view.scale`, &before); err != nil {
			t.Fatal(err)
		}
		press(t, "+")
		if err := p.Eval(`graphView.view.scale`, &after); err != nil || after <= before {
			t.Errorf("the scale is %g after +, was %g (%v)", after, before, err)
		}
		// A click opens a block, and one on a node shows it.
		eval(`(document.querySelector("[data-do=close]").click(), graphView.select(null), document.querySelector("[data-do=fit]").click(), graphView.top.kids.some(k => graphView.isOpen(k)))`, "false")
		click := func(item string) {
			t.Helper()
			var at []float64
			expression := fmt.Sprintf(`(() => { const k = %s, v = graphView.view, r = document.querySelector("canvas").getBoundingClientRect(); return [r.left + v.dx + (k.X + k.box.w / 2) * v.scale, r.top + v.dy + (k.Y + 12) * v.scale]; })()`, item)
			if err := p.Eval(expression, &at); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"mousePressed", "mouseReleased"} {
				if err := p.Call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1],
					"button": "left", "clickCount": 1}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		click(`graphView.items.find(x => x.t === "encoder")`)
		p.Wait(t, `graphView.isOpen(graphView.items.find(x => x.t === "encoder"))`)
		click(`graphView.items.find(x => x.t === "x" && x.k === "input")`)
		p.Wait(t, selected+` === "x"`)
		eval(`document.querySelector(".details").textContent.includes("float[n,8]")`, "true")
		eval(`(document.querySelector("[data-do=open]").click(), graphView.items.every(x => x.open || !x.kids.length))`, "true")
		eval(wrongBoxes, "")
		eval(`(document.querySelector("table[data-items] tbody tr:nth-child(2)").click(), graphView.selected.k)`, "node")
		// The drawing follows the color scheme, and the page is not wider than the window.
		const corner = `(() => {
			graphView.paint();
			const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
			c.drawImage(document.querySelector("canvas"), -1, -1);
			return c.getImageData(0, 0, 1, 1).data.slice(0, 3).join();
		})()`
		for _, c := range [][2]string{{"light", "255,255,255"}, {"dark", "20,23,27"}} {
			media := map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": c[0]}}}
			if err := p.Call("Emulation.setEmulatedMedia", media, nil); err != nil {
				t.Fatal(err)
			}
			eval(`(graphView.select(null), document.querySelector("[data-do=fit]").click())`, "undefined")
			p.Wait(t, corner+` === "`+c[1]+`"`)
		}
		eval(`document.documentElement.scrollWidth <= innerWidth`, "true")
	})
	t.Run("hostile", func(t *testing.T) {
		b := onnx.NewModel("m").Opset("", 21)
		long := strings.Repeat(`</script><img src=x onerror=alert(1)>"'`, 3000)
		b.Input("x", onnx.Float, 4).Output("y", onnx.Float, 4)
		b.Node("Relu", []string{"x"}, []string{"y"}).Name(long)
		model := filepath.Join(t.TempDir(), "m.onnx")
		if err := onnx.WriteFile(model, b.Must(), nil); err != nil {
			t.Fatal(err)
		}
		eval := open(t, model)
		eval(`(graphView.show(graphView.items[1]), document.querySelectorAll("img").length)`, "0")
		eval(`document.querySelector(".details").textContent.includes("</script><img")`, "true")
		eval(`document.documentElement.scrollWidth <= innerWidth`, "true")
	})
	t.Run("5000 nodes", func(t *testing.T) {
		eval := open(t, flatModel(t, 5000))
		eval(`(graphView.setAll(true), graphView.items.filter(x => x.k === "node").length)`, "5000")
		eval(wrongBoxes, "")
		eval(`document.querySelectorAll("table[data-items]").length`, "0")
		eval(`(document.querySelectorAll("noscript.long").length, [...document.querySelectorAll(".bar > button")].at(-1).click(), document.querySelector("table[data-items]").tBodies[0].rows.length)`, "5000")
	})
}
