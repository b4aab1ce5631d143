package opset

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/onward-ml/onward/onnx"
)

// First and Last are the oldest and the newest opset of ai.onnx that Convert knows.
const (
	First = 7
	Last  = onnx.LatestOpset
)

// testdata/record_schemas.py writes the file.
//
//go:embed schemas.txt
var schemaText string

// param is a formal input or output of an operator.
type param struct {
	typ      string // a type, or a variable of schema.types
	optional bool
	variadic bool
	mixed    bool // variadic, and each may have another type
}

// schema is an operator of ai.onnx in one version.
type schema struct {
	since      int64
	deprecated bool
	in, out    []param
	types      map[string][]string // the types of each variable
	attrs      map[string]any      // the default, nil for attributes without one; FLOAT is float64
}

// schemas returns the versions of each operator, ascending.
var schemas = sync.OnceValue(func() map[string][]*schema {
	r, sets := map[string][]*schema{}, [][]string{}
	for line := range strings.Lines(schemaText) {
		f := strings.Fields(line)
		if f[0] == "t" {
			sets = append(sets, f[2:])
			continue
		}
		r[f[0]] = append(r[f[0]], parseSchema(f, sets))
	}
	return r
})

// parseSchema parses a line of schemas.txt, whose form record_schemas.py describes. It panics if
// the line is malformed.
func parseSchema(f []string, sets [][]string) *schema {
	since, err := strconv.ParseInt(f[1], 10, 64)
	must(err)
	s := &schema{since: since, types: map[string][]string{}, attrs: map[string]any{}}
	field := ""
	for _, x := range f[2:] {
		name, set, isSet := strings.Cut(x, "=")
		switch {
		case x == "d":
			s.deprecated = true
		case x == "i" || x == "o" || x == "a":
			field = x
		case field == "a" && strings.Contains(name, ":"):
			name, typ, _ := strings.Cut(name, ":")
			var d any
			if isSet {
				must(json.Unmarshal([]byte(set), &d))
				if v, ok := d.(float64); ok && typ == "INT" {
					d = int64(v)
				}
			}
			s.attrs[name] = d
		case isSet:
			i, err := strconv.Atoi(set)
			must(err)
			s.types[name] = sets[i]
		default:
			p := param{typ: strings.TrimRight(x, "?*+"), optional: strings.HasSuffix(x, "?"),
				variadic: strings.HasSuffix(x, "*"), mixed: strings.HasSuffix(x, "+*")}
			if field == "i" {
				s.in = append(s.in, p)
			} else {
				s.out = append(s.out, p)
			}
		}
	}
	return s
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("opset: schemas.txt: %v", err))
	}
}

// schemaOf returns the schema of an operator for models that import a version, nil if that version
// has no such operator.
func schemaOf(op string, version int64) *schema {
	list := schemas()[op]
	for _, s := range slices.Backward(list) {
		if s.since <= version {
			return s
		}
	}
	return nil
}

// at returns the formal parameter of position i, nil if the operator has fewer.
func at(list []param, i int) *param {
	switch {
	case i < len(list):
		return &list[i]
	case len(list) > 0 && list[len(list)-1].variadic:
		return &list[len(list)-1]
	}
	return nil
}

// isDefault reports whether an attribute has a default value of a schema.
func isDefault(a *onnx.Attribute, d any) bool {
	switch d := d.(type) {
	case int64:
		return a.Type == onnx.AttrInt && a.I == d
	case float64:
		return a.Type == onnx.AttrFloat && a.F == float32(d)
	case string:
		return a.Type == onnx.AttrString && a.S == d
	}
	return false
}
