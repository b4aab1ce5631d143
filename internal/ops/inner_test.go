package ops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// An operator runs another one through Call.Inner: what that offers to repeat is not
// all that the call does. So no operator calls a Run with its call as the only argument.
func TestInnerOperatorsRunThroughInner(t *testing.T) {
	set := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	inner := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case sel.Sel.Name == "Inner":
				inner++
			case sel.Sel.Name == "Run" && len(call.Args) == 1:
				t.Errorf("%s: an operator runs without Call.Inner", set.Position(call.Pos()))
			}
			return true
		})
	}
	if inner == 0 {
		t.Error("no operator runs another one")
	}
}
