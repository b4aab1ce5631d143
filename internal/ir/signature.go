package ir

import (
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// Signature is the list of inputs and outputs of an operator, with their allowed types.
type Signature struct {
	In, Out []Param
	Vars    map[string][]tensor.Type // types that each type variable allows
}

// Param is a formal input or output.
type Param struct {
	Name     string
	Pattern  string // a type variable, a type such as "int64" or "seq(T)", or "any"
	Optional bool
	Variadic bool // last parameter only: any number of actual ones
	Min      int  // minimum number of actual ones of a variadic parameter
}

// groups maps names in type lists to several element types.
var groups = map[string][]tensor.DType{
	"@float":    {tensor.TypeFloat16, tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeBFloat16},
	"@float8":   {tensor.TypeFloat8E4M3FN, tensor.TypeFloat8E4M3FNUZ, tensor.TypeFloat8E5M2, tensor.TypeFloat8E5M2FNUZ},
	"@signed":   {tensor.TypeInt8, tensor.TypeInt16, tensor.TypeInt32, tensor.TypeInt64},
	"@unsigned": {tensor.TypeUint8, tensor.TypeUint16, tensor.TypeUint32, tensor.TypeUint64},
	"@packed":   {tensor.TypeInt4, tensor.TypeUint4, tensor.TypeInt2, tensor.TypeUint2, tensor.TypeFloat4E2M1},
	"@float6":   {tensor.TypeFloat6E2M3, tensor.TypeFloat6E3M2},
	"@complex":  {tensor.TypeComplex64, tensor.TypeComplex128},
}

func init() {
	groups["@int"] = append(append([]tensor.DType{}, groups["@signed"]...), groups["@unsigned"]...)
	groups["@number"] = append(append([]tensor.DType{}, groups["@int"]...), groups["@float"]...)
	var all []tensor.DType
	for d := tensor.TypeFloat32; d.Valid(); d++ {
		all = append(all, d)
	}
	groups["@all"] = all
}

// ParseSignature reads a signature. in and out are lists such as
//
//	"data:T, axes:int64?"      an optional second input
//	"inputs:T+"                one or more inputs, all of one type
//	"inputs:any*"              any number of inputs of any types
//
// and types says what each variable stands for, in words: element types by
// ONNX's names (float, int64), groups (@float: float16 float double bfloat16;
// @signed, @unsigned, @int, @number: @int and @float; @float8, @float6,
// @packed: of 4 and 2 bits, @complex, @all) and composed types (seq(@all), optional(seq(@all)),
// map(string,float), sparse(@all)). A pattern names a variable by an upper-case
// first letter.
func ParseSignature(in, out string, types map[string]string) (*Signature, error) {
	s := &Signature{Vars: map[string][]tensor.Type{}}
	for name, words := range types {
		for _, w := range strings.Fields(words) {
			ts, err := expand(w)
			if err != nil {
				return nil, fail.Errorf("type variable %s: %w", name, err)
			}
			s.Vars[name] = append(s.Vars[name], ts...)
		}
	}
	var err error
	if s.In, err = parseParams(in); err != nil {
		return nil, err
	}
	if s.Out, err = parseParams(out); err != nil {
		return nil, err
	}
	for _, p := range append(append([]Param{}, s.In...), s.Out...) {
		if err := s.checkPattern(p.Pattern); err != nil {
			return nil, fail.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return s, nil
}

func parseParams(list string) ([]Param, error) {
	var r []Param
	for _, item := range splitTop(list) {
		name, pat, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fail.Errorf("parameter %q has no type", item)
		}
		p := Param{Name: strings.TrimSpace(name), Pattern: strings.TrimSpace(pat)}
		switch p.Pattern[len(p.Pattern)-1] {
		case '?':
			p.Optional = true
		case '*':
			p.Variadic = true
		case '+':
			p.Variadic, p.Min = true, 1
		}
		p.Pattern = strings.TrimRight(p.Pattern, "?*+")
		r = append(r, p)
	}
	return r, nil
}

// splitTop splits at commas outside of parentheses.
func splitTop(list string) []string {
	var r []string
	depth, start := 0, 0
	for i, c := range list {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				r = append(r, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}
	if last := strings.TrimSpace(list[start:]); last != "" {
		r = append(r, last)
	}
	return r
}

// compose splits "seq(T)" into "seq" and "T".
func compose(w string) (head, arg string) {
	if i := strings.IndexByte(w, '('); i > 0 && strings.HasSuffix(w, ")") {
		return w[:i], w[i+1 : len(w)-1]
	}
	return "", w
}

func expand(w string) ([]tensor.Type, error) {
	head, arg := compose(w)
	if head == "" {
		if g, ok := groups[w]; ok {
			r := make([]tensor.Type, len(g))
			for i, d := range g {
				r[i] = tensor.TensorType(d)
			}
			return r, nil
		}
		d, err := tensor.ParseDType(w)
		if err != nil {
			return nil, err
		}
		return []tensor.Type{tensor.TensorType(d)}, nil
	}
	key := ""
	if head == "map" {
		var ok bool
		if key, arg, ok = strings.Cut(arg, ","); !ok {
			return nil, fail.Errorf("map type %q needs a key and a value", w)
		}
	}
	inner, err := expand(arg)
	if err != nil {
		return nil, err
	}
	r := make([]tensor.Type, len(inner))
	for i, t := range inner {
		switch head {
		case "seq":
			r[i] = tensor.SequenceOf(t)
		case "optional":
			r[i] = tensor.OptionalOf(t)
		case "sparse":
			r[i] = tensor.SparseType(t.Elem)
		case "map":
			k, err := tensor.ParseDType(key)
			if err != nil {
				return nil, err
			}
			r[i] = tensor.MapOf(k, t)
		default:
			return nil, fail.Errorf("unknown type %q", w)
		}
	}
	return r, nil
}

func isVar(pat string) bool { return pat != "" && pat[0] >= 'A' && pat[0] <= 'Z' }

func (s *Signature) checkPattern(pat string) error {
	head, arg := compose(pat)
	if head != "" && head != "map" {
		return s.checkPattern(arg)
	}
	if pat == "any" {
		return nil
	}
	if isVar(pat) {
		if _, ok := s.Vars[pat]; !ok {
			return fail.Errorf("type variable %s is not declared", pat)
		}
		return nil
	}
	_, err := expand(pat)
	return err
}

func (s *Signature) match(pat string, t tensor.Type, bound map[string]tensor.Type) error {
	head, arg := compose(pat)
	switch {
	case pat == "any":
		return nil
	case isVar(pat):
		if b, ok := bound[pat]; ok {
			if !b.Equal(t) {
				return fail.Errorf("has type %s, but type parameter %s is bound to %s", t, pat, b)
			}
			return nil
		}
		for _, v := range s.Vars[pat] {
			if v.Equal(t) {
				bound[pat] = t
				return nil
			}
		}
		return fail.Errorf("has type %s, which type parameter %s does not allow", t, pat)
	case head == "seq" && t.Kind == tensor.KindSequence, head == "optional" && t.Kind == tensor.KindOptional:
		if t.Of == nil || t.Of.Kind == tensor.KindInvalid {
			return nil
		}
		return s.match(arg, *t.Of, bound)
	case head == "sparse" && t.Kind == tensor.KindSparse:
		return s.match(arg, tensor.TensorType(t.Elem), bound)
	}
	want, err := expand(pat)
	if err != nil {
		return fail.Errorf("has type %s, want %s", t, pat)
	}
	for _, w := range want {
		if w.Equal(t) {
			return nil
		}
	}
	return fail.Errorf("has type %s, want %s", t, pat)
}

// Check reports whether a node may have inputs of these types (the zero Type for an omitted one)
// and numOut outputs.
func (s *Signature) Check(in []tensor.Type, numOut int) error {
	_, err := s.Bind(in, numOut)
	return err
}

// Bind is [Signature.Check] and returns the types of the type variables.
func (s *Signature) Bind(in []tensor.Type, numOut int) (map[string]tensor.Type, error) {
	bound := map[string]tensor.Type{}
	return bound, s.bind(in, numOut, bound)
}

// Resolve returns the type of a pattern for the given variables, or false if it allows several.
func (s *Signature) Resolve(pattern string, bound map[string]tensor.Type) (tensor.Type, bool) {
	if t, ok := bound[pattern]; ok {
		return t, true
	}
	switch head, arg := compose(pattern); head {
	case "seq", "optional":
		t, ok := s.Resolve(arg, bound)
		if head == "seq" {
			return tensor.SequenceOf(t), ok
		}
		return tensor.OptionalOf(t), ok
	}
	if ts := s.Types(pattern); len(ts) == 1 {
		return ts[0], true
	}
	return tensor.Type{}, false
}

func (s *Signature) bind(in []tensor.Type, numOut int, bound map[string]tensor.Type) error {
	for len(in) > 0 && in[len(in)-1].Kind == tensor.KindInvalid {
		in = in[:len(in)-1]
	}
	for i, t := range in {
		p, ok := formal(s.In, i)
		if !ok {
			return fail.Errorf("node has %d inputs, want at most %d", len(in), len(s.In))
		}
		if t.Kind == tensor.KindInvalid {
			if !p.Optional && !p.Variadic {
				return fail.Errorf("input %d (%s) is missing", i, p.Name)
			}
			continue
		}
		if err := s.match(p.Pattern, t, bound); err != nil {
			return fail.Errorf("input %d (%s) %w", i, p.Name, err)
		}
	}
	for i := len(in); i < len(s.In); i++ {
		if p := s.In[i]; !p.Optional && (!p.Variadic || p.Min > 0) {
			return fail.Errorf("input %d (%s) is missing", i, p.Name)
		}
	}
	if n := len(s.Out); numOut > n && (n == 0 || !s.Out[n-1].Variadic) {
		return fail.Errorf("node has %d outputs, want at most %d", numOut, n)
	}
	return nil
}

func formal(ps []Param, i int) (Param, bool) {
	if i < len(ps) {
		return ps[i], true
	}
	if n := len(ps); n > 0 && ps[n-1].Variadic {
		return ps[n-1], true
	}
	return Param{}, false
}

// OptionalOut reports whether a node may omit output i. Outputs of a variadic parameter may not be
// omitted, since their number is part of the node's meaning.
func (s *Signature) OptionalOut(i int) bool {
	p, _ := formal(s.Out, i)
	return p.Optional
}

// Types returns the types that a pattern allows; nil for "any".
func (s *Signature) Types(pattern string) []tensor.Type {
	head, arg := compose(pattern)
	var wrap func(tensor.Type) tensor.Type
	switch {
	case pattern == "any":
		return nil
	case isVar(pattern):
		return s.Vars[pattern]
	case head == "seq":
		wrap = tensor.SequenceOf
	case head == "optional":
		wrap = tensor.OptionalOf
	default:
		r, _ := expand(pattern)
		return r
	}
	var r []tensor.Type
	for _, t := range s.Types(arg) {
		r = append(r, wrap(t))
	}
	return r
}
