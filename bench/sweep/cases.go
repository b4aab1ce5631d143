package main

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/internal/testing/opfuzz"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

//go:embed cases.txt
var typical string

const typicalCase = "typical"

var types = map[string]tensor.DType{
	"f32": tensor.TypeFloat32, "f64": tensor.TypeFloat64, "f16": tensor.TypeFloat16, "bool": tensor.TypeBool,
	"u8": tensor.TypeUint8, "i8": tensor.TypeInt8, "u32": tensor.TypeUint32, "i32": tensor.TypeInt32,
	"u64": tensor.TypeUint64, "i64": tensor.TypeInt64,
}

// parse returns the lines of a table, the contents of a file, in the format that cases.txt
// describes, and the names of their operators.
func parse(file, table string) (groups []group, names map[string]bool) {
	names = map[string]bool{}
	for i, line := range strings.Split(table, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		ops, _, _ := strings.Cut(line, "|")
		for _, op := range strings.Fields(ops) {
			name, _, _ := strings.Cut(op, "@")
			names[name] = true
		}
		groups = append(groups, group{cases: func() ([]*opfuzz.Case, error) {
			cases, err := parseLine(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			return cases, nil
		}})
	}
	return groups, names
}

// parseLine returns the cases of a line, for each operator and type one.
func parseLine(line string) ([]*opfuzz.Case, error) {
	fields := strings.Split(line, "|")
	if len(fields) < 3 || len(fields) > 4 {
		return nil, fmt.Errorf("%d fields, want operators, types, inputs and attributes", len(fields))
	}
	var list []*opfuzz.Case
	for _, op := range strings.Fields(fields[0]) {
		name, version, _ := strings.Cut(op, "@")
		c := opfuzz.Case{Op: name, Opset: 21, From: typicalCase, Out: []bool{true}}
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			c.Domain, c.Op = name[:i], name[i+1:]
			c.Opset = map[string]int{"com.microsoft": 1, "ai.onnx.ml": 3}[c.Domain]
		}
		var err error
		if version != "" {
			if c.Opset, err = strconv.Atoi(version); err != nil {
				return nil, err
			}
		}
		if len(fields) == 4 {
			if err := parseAttributes(&c, fields[3]); err != nil {
				return nil, err
			}
		}
		for _, typ := range strings.Fields(fields[1]) {
			d := c
			rng := rand.New(rand.NewPCG(1, 2)) // the same contents in every run
			for in := range strings.SplitSeq(fields[2], ";") {
				v, constant, err := parseInput(strings.TrimSpace(in), typ, rng)
				if err != nil {
					return nil, err
				}
				d.In, d.Constant = append(d.In, v), append(d.Constant, constant)
			}
			list = append(list, &d)
		}
	}
	return list, nil
}

// parseAttributes adds attributes like k=1 k=0.5 k=text k=[1,2]. The number of outputs is written
// as one of them.
func parseAttributes(c *opfuzz.Case, text string) error {
	for f := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(f, "=")
		if name == "outputs" {
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			c.Out = slices.Repeat([]bool{true}, n)
			continue
		}
		var v any = value
		inner, list := strings.CutPrefix(strings.TrimSuffix(value, "]"), "[")
		var ints []int64
		var floats []float32
		for s := range strings.SplitSeq(inner, ",") {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				ints = append(ints, n)
			} else if x, err := strconv.ParseFloat(s, 32); err == nil {
				floats = append(floats, float32(x))
			}
		}
		switch {
		case list && floats != nil:
			v = floats
		case list:
			v = ints
		case ints != nil:
			v = ints[0]
		case floats != nil:
			v = floats[0]
		}
		a, err := onnx.NewAttribute(name, v)
		if err != nil {
			return err
		}
		c.Attrs = append(c.Attrs, a)
	}
	return nil
}

// parseShape returns a shape and its number of elements.
func parseShape(size string) (shape []int, n int, err error) {
	shape = []int{}
	for s := range strings.SplitSeq(size, "x") {
		if s == "-" {
			break
		}
		d, err := strconv.Atoi(s)
		if err != nil {
			return nil, 0, err
		}
		shape = append(shape, d)
	}
	n, err = tensor.Elements(shape)
	return shape, n, err
}

// parseInput draws the input that the text describes and reports whether it is an initializer.
func parseInput(text, typ string, rng *rand.Rand) (v tensor.Value, constant bool, err error) {
	if text == "~" {
		return nil, false, nil
	}
	if list, ok := strings.CutPrefix(text, "="); ok {
		list, scalar := strings.CutPrefix(list, "=")
		list, size, repeat := strings.Cut(list, " ")
		var ints []int64
		var floats []float32
		for s := range strings.SplitSeq(list, ",") {
			x, err := strconv.ParseFloat(s, 32)
			if err != nil {
				return nil, false, err
			}
			ints, floats = append(ints, int64(x)), append(floats, float32(x))
		}
		shape := []int{len(ints)}
		switch {
		case scalar:
			shape = nil
		case repeat:
			var n int
			if shape, n, err = parseShape(size); err != nil {
				return nil, false, fmt.Errorf("input %q: %w", text, err)
			}
			ints, floats = slices.Repeat(ints, n/len(ints)), slices.Repeat(floats, n/len(floats))
		}
		if strings.Contains(list, ".") {
			v, err = tensor.New(floats, shape...)
		} else {
			v, err = tensor.New(ints, shape...)
		}
		return v, true, err
	}
	text, constant = strings.CutPrefix(text, "!")
	text, positive := strings.CutPrefix(text, "+")
	kind, size, _ := strings.Cut(text, " ")
	kind, below, _ := strings.Cut(kind, "<")
	if kind == "T" {
		kind = typ
	}
	d, ok := types[kind]
	if !ok {
		return nil, false, fmt.Errorf("input %q: unknown type %q", text, kind)
	}
	limit := 100.0
	if below != "" {
		n, err := strconv.Atoi(below)
		if err != nil {
			return nil, false, err
		}
		limit = float64(n)
	}
	shape, n, err := parseShape(size)
	if err != nil {
		return nil, false, fmt.Errorf("input %q: %w", text, err)
	}
	x := make([]float64, n)
	for i := range x {
		switch {
		case i >= 1<<16:
			x[i] = x[i-1<<16]
		case d == tensor.TypeBool:
			x[i] = float64(rng.IntN(2))
		case !d.IsFloat():
			x[i] = float64(rng.IntN(int(limit)))
			if positive {
				x[i]++
			}
		case positive:
			x[i] = 0.05 + rng.Float64()
		default:
			x[i] = rng.NormFloat64()
		}
	}
	t := tensor.Must(tensor.Zeros(d, shape...))
	if d == tensor.TypeBool {
		for i := range x {
			tensor.MustData[bool](t)[i] = x[i] != 0
		}
		return t, constant, nil
	}
	return t, constant, tensor.ConvertInto(t, tensor.Must(tensor.New(x, shape...)), nil)
}

// drawn returns at most 4·n cases of an operator from ONNX's suite and the recorded
// cases, those of distinct element types first. It enlarges them to about 32 Ki elements,
// and appends the originals.
func drawn(seeds opfuzz.Seeds, name string, n int) []*opfuzz.Case {
	var list, small []*opfuzz.Case
	seen := map[string]bool{}
	for pass := range 2 {
		for i, s := range seeds[name] {
			var kind strings.Builder
			for k := range s.In {
				fmt.Fprint(&kind, s.DType(k), " ")
			}
			if len(list) >= 4*n || seen[kind.String()] && pass == 0 || seen[s.From] {
				continue
			}
			seen[kind.String()], seen[s.From] = true, true
			list, small = append(list, s.Scale(uint64(i), 32<<10)), append(small, s)
		}
	}
	return append(list, small...)
}

// label returns the operator, the types and shapes of the inputs and the attributes.
func label(c *opfuzz.Case) string {
	var b strings.Builder
	b.WriteString(c.Name())
	for i, v := range c.In {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		t, ok := v.(*tensor.Tensor)
		switch {
		case v == nil:
			b.WriteString(sep + "–")
		case !ok:
			b.WriteString(sep + v.Type().String())
		case t.Rank() == 0:
			fmt.Fprintf(&b, "%s%v", sep, t.DType())
		case t.Rank() == 1 && t.Len() <= 4 && t.DType() == tensor.TypeInt64:
			fmt.Fprintf(&b, "%s%v", sep, tensor.MustData[int64](t))
		default:
			fmt.Fprintf(&b, "%s%v %s", sep, t.DType(),
				strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Shape()), "[]"), " ", "×"))
		}
	}
	for _, a := range c.Attrs {
		switch {
		case a.Type == onnx.AttrInt:
			fmt.Fprintf(&b, " %s=%d", a.Name, a.I)
		case a.Type == onnx.AttrFloat:
			fmt.Fprintf(&b, " %s=%g", a.Name, a.F)
		case a.Type == onnx.AttrString && len(a.S) <= 30:
			fmt.Fprintf(&b, " %s=%s", a.Name, a.S)
		case a.Type == onnx.AttrInts && len(a.Ints) <= 8:
			fmt.Fprintf(&b, " %s=%v", a.Name, a.Ints)
		}
	}
	return b.String()
}
