package onward

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// This test checks that docs/options.md lists every option.
func TestOptionsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	session, run, ok := strings.Cut(string(doc), "## RunOptions")
	if !ok {
		t.Fatal("docs/options.md has no section on RunOptions")
	}
	for text, typ := range map[string]reflect.Type{session: reflect.TypeFor[SessionOptions](), run: reflect.TypeFor[RunOptions]()} {
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; typ.Field(i).IsExported() && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s.%s is not in docs/options.md", typ.Name(), name)
			}
		}
	}
}
