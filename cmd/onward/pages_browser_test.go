//go:build !core && !server

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/browser"
)

// Pages load nothing, report no error, sort and filter by mouse and keyboard, and follow the color
// scheme.
func TestPagesInBrowser(t *testing.T) {
	p := browser.Open(t)
	_, npz := digitData(t)
	eval := func(t *testing.T, expression, want string) {
		t.Helper()
		var got string
		if err := p.Eval("String("+expression+")", &got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", expression, got, err, want)
		}
	}
	press := func(t *testing.T, key string) {
		t.Helper()
		if err := p.Press(key); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"profile":     {"profile", "digits.onnx", "--runs", "2", "--peak=false"},
		"compare":     {"compare", "digits.onnx", "--layers"},
		"bench":       {"bench", "digits.onnx", "--provider", "cpu,reference", "--rounds", "1", "--iterations", "5"},
		"calibrate":   {"calibrate", "digits.onnx", "--data", npz, "-o", t.TempDir()},
		"conformance": {"conformance", "--data", smallSuite(t), "--exclude", "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "page.html")
			command(t, exitOK, append(args, "--html", path)...)
			seen := len(p.Log())
			if err := p.Go("file://" + path); err != nil {
				t.Fatal(err)
			}
			p.Wait(t, `document.querySelector("th button") !== null`)
			for _, scheme := range []struct{ name, background string }{{"light", "rgb(255, 255, 255)"},
				{"dark", "rgb(20, 23, 27)"}} {
				media := map[string]any{
					"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme.name}}}
				if err := p.Call("Emulation.setEmulatedMedia", media, nil); err != nil {
					t.Fatal(err)
				}
				eval(t, `getComputedStyle(document.body).backgroundColor`, scheme.background)
			}
			eval(t, `(document.querySelector("th button").click(), document.querySelector("th").ariaSort !== null)`, "true")
			const column = `[...document.querySelectorAll("table")[0].tBodies[0].rows].map(r => r.cells[0].textContent).join()`
			var before, after string
			if err := p.Eval(column, &before); err != nil {
				t.Fatal(err)
			}
			eval(t, `(document.querySelector("th button").focus(), document.activeElement.tagName)`, "BUTTON")
			press(t, "Enter")
			p.Wait(t, column+` !== "`+before+`" || document.querySelector("tbody").rows.length < 2`)
			if err := p.Eval(column, &after); err != nil {
				t.Fatal(err)
			}
			reversed := strings.Split(before, ",")
			for i, j := 0, len(reversed)-1; i < j; i, j = i+1, j-1 {
				reversed[i], reversed[j] = reversed[j], reversed[i]
			}
			if after != strings.Join(reversed, ",") {
				t.Errorf("the first column is %q after a second sort, was %q", after, before)
			}
			eval(t, `document.documentElement.scrollWidth <= innerWidth`, "true")
			if name == "profile" {
				eval(t, `(document.querySelector(".frame").focus(), document.querySelector(".flame .status").textContent.startsWith("run, "))`, "true")
				press(t, "+")
				p.Wait(t, `document.querySelector(".frames").style.width === "200%"`)
				press(t, "0")
				p.Wait(t, `document.querySelector(".frames").style.width === "100%"`)
			}
			// The page itself is the only request, and there are no errors.
			if log := p.Log()[seen:]; len(log) != 1 || !strings.HasPrefix(log[0], "Network.requestWillBeSent") ||
				!strings.Contains(log[0], path) {
				t.Errorf("the browser reports %q", log)
			}
		})
	}
}
