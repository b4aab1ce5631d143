package frontend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// einsumGradient multiplies the gradient by all inputs but one, with the indices of
// that one as the result's. Ones of its shape give the indices that only it has.
func einsumGradient(b *gradientBuilder, n *onnx.Node, g string) ([]string, error) {
	terms, out, err := einsumTerms(stringAttr(n, "equation"))
	if err != nil {
		return nil, err
	}
	if len(terms) != len(n.Inputs) {
		return nil, fmt.Errorf("the equation has %d terms for %d inputs", len(terms), len(n.Inputs))
	}
	r := make([]string, len(n.Inputs))
	for k, x := range n.Inputs {
		in, from := []string{g}, []string{out}
		for i, other := range n.Inputs {
			if i != k {
				in, from = append(in, other), append(from, terms[i])
			}
		}
		in, from = append(in, b.filled(1, x)), append(from, terms[k])
		equation := &onnx.Attribute{Name: "equation", Type: onnx.AttrString, S: strings.Join(from, ",") + "->" + terms[k]}
		r[k] = b.sumTo(b.node("Einsum", []*onnx.Attribute{equation}, in...), x)
	}
	return r, nil
}

// einsumTerms returns the indices of the inputs and of the output.
func einsumTerms(equation string) (terms []string, out string, err error) {
	left, out, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	terms = strings.Split(left, ",")
	for _, t := range terms {
		letters := strings.ReplaceAll(t, "...", "")
		for i, l := range letters {
			if strings.ContainsRune(letters[i+1:], l) {
				return nil, "", fmt.Errorf("equation %q takes a diagonal: index %c comes twice in %q", equation, l, t)
			}
		}
		if explicit && strings.Contains(t, "...") && !strings.Contains(out, "...") {
			return nil, "", fmt.Errorf("equation %q sums over the dimensions of an ellipsis", equation)
		}
	}
	if explicit {
		return terms, out, nil
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
	return terms, out + string(single), nil
}
