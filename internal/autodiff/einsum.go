package autodiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// einsumGradient multiplies the gradient by all inputs but one, with the indices of
// that one as the result's. Ones of its shape give the indices that only it has.
func einsumGradient(b *builder, n *onnx.Node, g string) ([]string, error) {
	terms, out := einsumTerms(stringAttr(n, "equation"))
	if len(terms) != len(n.Inputs) {
		return nil, fmt.Errorf("the equation has %d terms for %d inputs", len(terms), len(n.Inputs))
	}
	// Where an index comes twice the input is that diagonal of itself.
	inputs, diagonal := slices.Clone(n.Inputs), make([]string, len(terms))
	for k, t := range terms {
		once := einsumOnce(t)
		if once == t {
			continue
		}
		diagonal[k] = b.einsum(t+"->"+once, b.positions(n.Inputs[k], 1))
		inputs[k] = b.node("onward.GatherBack", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: 1}}, inputs[k], diagonal[k])
		terms[k] = once
	}
	r := make([]string, len(inputs))
	for k, x := range inputs {
		in, from := []string{g}, []string{out}
		for i, other := range inputs {
			if i != k {
				in, from = append(in, other), append(from, terms[i])
			}
		}
		in, from = append(in, b.filled(1, x)), append(from, terms[k])
		r[k] = b.sumTo(b.einsum(strings.Join(from, ",")+"->"+terms[k], in...), x)
		if diagonal[k] != "" {
			r[k] = b.scatterBack(1, r[k], diagonal[k], n.Inputs[k])
		}
	}
	return r, nil
}

func (b *builder) einsum(equation string, in ...string) string {
	return b.node("Einsum", []*onnx.Attribute{{Name: "equation", Type: onnx.AttrString, S: equation}}, in...)
}

// einsumOnce drops the indices of a term that came before.
func einsumOnce(term string) string {
	var r []rune
	for _, l := range term {
		if l == '.' || !slices.Contains(r, l) {
			r = append(r, l)
		}
	}
	return string(r)
}

// einsumTerms returns the indices of the inputs and of the output.
func einsumTerms(equation string) (terms []string, out string) {
	left, out, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	terms = strings.Split(left, ",")
	if explicit {
		return terms, out
	}
	var single []rune // what comes once, in order
	all := strings.ReplaceAll(left, ",", "")
	for _, l := range strings.ReplaceAll(all, ".", "") {
		if strings.Count(all, string(l)) == 1 {
			single = append(single, l)
		}
	}
	slices.Sort(single)
	if strings.Contains(left, "...") {
		out = "..."
	}
	return terms, out + string(single)
}
