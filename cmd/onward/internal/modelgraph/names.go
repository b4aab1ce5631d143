package modelgraph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
)

// title returns the names of the largest modules in a block, else what the names of its nodes begin
// with, else the operators in it.
func (l *level) title(box int) string {
	const most = 2
	modules := slices.DeleteFunc(slices.Clone(l.kids[box]), func(x int) bool { return !l.named[x] })
	if len(modules) > 0 {
		bySize := slices.Clone(modules)
		slices.SortStableFunc(bySize, func(a, b int) int { return len(l.leaves(b)) - len(l.leaves(a)) })
		var names []string
		for _, x := range modules {
			if slices.Contains(bySize[:min(most, len(bySize))], x) {
				names = append(names, l.Items[x].Title)
			}
		}
		if len(modules) > most {
			names = append(names, "…")
		}
		return strings.Join(names, ", ")
	}
	list := l.leaves(box)
	if len(l.paths[list[0]]) > 0 { // the blocks around it are named after the modules
		return l.operators(box, 2)
	}
	prefix := l.label(list[0])
	for _, i := range list[1:] {
		name := l.label(i)
		n := 0
		for n < min(len(prefix), len(name)) && prefix[n] == name[n] {
			n++
		}
		prefix = prefix[:n]
	}
	if at := strings.LastIndexAny(prefix, "/_.:-"); at > 0 && strings.ContainsFunc(prefix[:at], unicode.IsDigit) {
		return strings.Trim(prefix[:at], "/_.:-")
	}
	return l.operators(box, 2)
}

// label returns the name of a node, or that of its result.
func (l *level) label(i int) string {
	x := l.Items[i]
	if x.Name == "" && len(x.Out) > 0 && x.Out[0] >= 0 {
		return l.Values[x.Out[0]].Name
	}
	return x.Name
}

// operators lists the main operators of a box: "3 Conv, 2 Relu, …".
func (l *level) operators(box, most int) string {
	count, class := map[string]int{}, map[string]int{}
	for _, i := range l.leaves(box) {
		count[l.Items[i].Title]++
		class[l.Items[i].Title] = slices.Index([]int{linearClass, normalClass, poolClass, activationClass},
			l.Items[i].Class)
	}
	names := text.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(uint(class[a]), uint(class[b])), count[b]-count[a], strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), most)] {
		if count[name] > 1 {
			name = fmt.Sprintf("%d %s", count[name], name)
		}
		parts = append(parts, name)
	}
	if len(names) > most {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}

// modules returns the modules that a node is in, outermost first: of the metadata that PyTorch's
// exporter writes (pkg.torch.onnx.name_scopes), or from the parts of its name between slashes.
func modules(n *onnx.Node) []string {
	for _, p := range n.MetadataProps {
		if p.Key == "pkg.torch.onnx.name_scopes" {
			return scopes(p.Value)
		}
	}
	name := n.Name
	if name == "" && len(n.Outputs) > 0 {
		name = n.Outputs[0]
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	return parts[:min(max(len(parts)-1, 0), maxDepth)]
}

// scopes returns the modules of a list in Python's syntax, such as "[”, 'layers', 'layers.0',
// 'add']". The last element is the node's own name.
func scopes(list string) []string {
	var r []string
	before := ""
	parts := strings.Split(strings.Trim(list, "[]"), ",")
	for _, s := range parts[:len(parts)-1] {
		s = strings.Trim(s, " '\"")
		if name := strings.TrimPrefix(s, before+"."); s != "" && s != before {
			r = append(r, name)
			before = s
		}
	}
	return r[:min(len(r), maxDepth)]
}
