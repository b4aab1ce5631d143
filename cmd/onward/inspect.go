package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cost"
	"github.com/onward-ml/onward/cmd/onward/internal/fit"
	"github.com/onward-ml/onward/cmd/onward/internal/inputs"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/cmd/onward/internal/weights"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

type argJSON struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []any  `json:"shape"` // numbers, names, or null; null if the rank is unknown
}

// inspectJSON is the output of --json. The costs are absent if the model cannot be analyzed.
type inspectJSON struct {
	Inputs       []argJSON            `json:"inputs"`
	Overridable  []argJSON            `json:"overridable_initializers,omitempty"`
	Outputs      []argJSON            `json:"outputs"`
	Metadata     onward.ModelMetadata `json:"metadata"`
	Nodes        int                  `json:"nodes"`
	Operators    map[string]int       `json:"operators"`
	Functions    int                  `json:"functions"`
	Initializers int                  `json:"initializers"`
	Parameters   int64                `json:"parameters"`
	WeightBytes  int64                `json:"weight_bytes"`
	// MACs are the multiplications of a run, ActivationBytes the memory of its values.
	// Free dimensions, which FreeDimensions lists, count as 1.
	MACs            *int64   `json:"macs,omitempty"`
	ActivationBytes *int64   `json:"activation_bytes,omitempty"`
	FreeDimensions  []string `json:"free_dimensions"`
	// SpecializedShapes is the number of input shapes for which cpu compiles plans, if the model
	// has convolutions over free dimensions.
	SpecializedShapes int `json:"specialized_shapes,omitempty"`
	// UnknownSizes is the error of a run, if no sizes of the free dimensions were found that work.
	UnknownSizes string            `json:"unknown_sizes,omitempty"`
	Layers       []layerJSON       `json:"layers,omitempty"` // with --layers
	Providers    map[string]string `json:"providers"`        // "ok", or the error

	example string // flags that draw inputs
}

// layerJSON is a node of the main graph with its cost.
type layerJSON struct {
	cost.Layer
	// Sparsity is the share of zeros among the parameters; absent without parameters.
	Sparsity *float64 `json:"sparsity,omitempty"`
}

func inspectCommand() *cobra.Command {
	var asJSON, layers bool
	var own session.ProviderOptions
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's inputs, outputs, operators, size and cost",
		Long: `Show a model's inputs, outputs, metadata, opsets and operators; the number of its
parameters, the multiply-adds (MACs) and memory of a run; which providers can run it, and
a command that runs it. Free dimensions count as 1. A model of more than 1000 nodes is
not opened with native libraries, because they take seconds; onward check opens it.

--layers lists the nodes with their MACs, parameters, share of zero parameters, size of
their results, and shape.`,
		Example: "  onward inspect model.onnx\n  onward inspect digits.onnx --layers\n" +
			"  onward inspect digits.onnx --json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := own.Named(); err != nil {
				return err
			}
			m, err := modelfile.Load(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			r, err := inspect(cmd.Context(), args[0], m, layers, own)
			if err != nil {
				return err
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			r.print(cmd.OutOrStdout(), args[0])
			return nil
		},
	}
	c.Flags().BoolVar(&layers, "layers", false, "list the nodes with their costs")
	session.OptionFlag(c.Flags(), &own)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// inspectOpens is the largest number of nodes for which native libraries open a model.
const inspectOpens = 1000

func inspect(ctx context.Context, path string, m *onnx.Model, layers bool,
	own session.ProviderOptions) (*inspectJSON, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	r := &inspectJSON{Inputs: args(d.Inputs), Overridable: args(d.OverridableInitializers), Outputs: args(d.Outputs),
		Metadata:  d.Metadata,
		Operators: map[string]int{}, Functions: len(m.Functions), Providers: map[string]string{}}
	r.count(m.Graph)
	for _, f := range m.Functions {
		r.countNodes(f.Nodes)
	}
	r.addCosts(m, layers)
	if r.Operators["Conv"]+r.Operators["ConvTranspose"] > 0 {
		if a, err := onward.Analyze(m, onward.Limits{}); err == nil && freeConv(a) {
			r.SpecializedShapes = goengine.DefaultSpecializedShapes
		}
	}
	r.addExample(ctx, m)
	for p, err := range tryProviders(ctx, path, m, own, r.Nodes <= inspectOpens) {
		r.Providers[p] = "ok"
		if err != nil {
			r.Providers[p] = err.Error()
		}
	}
	return r, nil
}

// freeConv reports whether a graph has convolutions whose inputs have free heights or widths.
func freeConv(a *onward.Analysis) bool {
	values := a.ByName()
	return slices.ContainsFunc(a.Nodes, func(n onward.NodeInfo) bool {
		if n.OpType == "Conv" || n.OpType == "ConvTranspose" {
			shape := values[n.Inputs[0]].Shape
			return len(shape) > 2 && slices.ContainsFunc(shape[2:], func(d onward.Dim) bool { return d.Value < 0 })
		}
		return slices.ContainsFunc(n.Bodies, freeConv)
	})
}

// addCosts adds the costs, if shape inference accepts the model.
func (r *inspectJSON) addCosts(m *onnx.Model, layers bool) {
	r.FreeDimensions = []string{}
	for _, a := range r.Inputs {
		for _, d := range a.Shape {
			if name, ok := d.(string); ok && !slices.Contains(r.FreeDimensions, name) {
				r.FreeDimensions = append(r.FreeDimensions, name)
			}
		}
	}
	c, err := cost.Of(m)
	if err != nil {
		return // the providers report the error
	}
	r.MACs, r.ActivationBytes = &c.MACs, &c.ActivationBytes
	if !layers {
		return
	}
	unread := map[string]*onnx.Tensor{}
	for _, t := range m.Graph.Initializers {
		unread[t.Name] = t
	}
	for _, l := range c.Layers {
		j := layerJSON{Layer: l}
		var zeros, all int64
		for _, in := range l.Inputs {
			if t := unread[in]; t != nil {
				delete(unread, in) // counted for the first node that reads it
				if x, err := m.DecodeTensor(t); err == nil {
					if w, err := weights.Summarize(x); err == nil {
						zeros, all = zeros+w.Zeros, all+w.Count
					}
				}
			}
		}
		if all > 0 {
			j.Sparsity = new(float64)
			*j.Sparsity = float64(zeros) / float64(all)
		}
		r.Layers = append(r.Layers, j)
	}
}

func args(list []onward.NodeArg) []argJSON {
	r := make([]argJSON, len(list))
	for i, a := range list {
		r[i] = argJSON{Name: a.Name, Type: a.Type}
		if a.Shape == nil {
			continue
		}
		r[i].Shape = []any{}
		for _, d := range a.Shape {
			switch {
			case d.Value >= 0:
				r[i].Shape = append(r[i].Shape, d.Value)
			case d.Param != "":
				r[i].Shape = append(r[i].Shape, d.Param)
			default:
				r[i].Shape = append(r[i].Shape, nil)
			}
		}
	}
	return r
}

func (r *inspectJSON) count(g *onnx.Graph) {
	if g == nil {
		return
	}
	for _, t := range g.Initializers {
		r.Initializers++
		n := int64(1)
		for _, d := range t.Dims {
			n *= d
		}
		r.Parameters += max(n, 0)
		r.WeightBytes += (max(n, 0)*int64(modelfile.ElementBits(t.DataType)) + 7) / 8
	}
	r.countNodes(g.Nodes)
}

func (r *inspectJSON) countNodes(nodes []*onnx.Node) {
	for _, n := range nodes {
		op := n.OpType
		if d := onnx.NormalizeDomain(n.Domain); d != "" {
			op = d + "." + op
		}
		r.Nodes++
		r.Operators[op]++
		for _, a := range n.Attributes {
			r.count(a.G)
			for _, g := range a.Graphs {
				r.count(g)
			}
		}
	}
}

func (r *inspectJSON) print(w io.Writer, path string) {
	list := func(title string, args []argJSON) {
		if len(args) == 0 {
			return
		}
		fmt.Fprintln(w, title)
		for _, a := range args {
			fmt.Fprintf(w, "  %s: %s%s\n", text.Name(a.Name), a.Type, text.Name(a.shape()))
		}
	}
	m := r.Metadata
	field := func(key, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s: %s\n", key, text.Name(value))
		}
	}
	field("producer", strings.TrimSpace(m.ProducerName+" "+m.ProducerVersion))
	field("graph", m.GraphName)
	field("domain", m.Domain)
	field("description", m.Description)
	opsets := make([]string, 0, len(m.Opsets))
	for _, d := range slices.Sorted(maps.Keys(m.Opsets)) {
		opsets = append(opsets, fmt.Sprintf("%s %d", cmp.Or(d, "ai.onnx"), m.Opsets[d]))
	}
	field("opsets", fmt.Sprintf("%s; IR version %d; model version %d", strings.Join(opsets, ", "),
		m.IRVersion, m.Version))
	for _, k := range slices.Sorted(maps.Keys(m.Custom)) {
		fmt.Fprintf(w, "metadata %s: %s\n", text.Name(k), text.Name(m.Custom[k]))
	}
	list("inputs", r.Inputs)
	list("overridable initializers", r.Overridable)
	list("outputs", r.Outputs)
	field("free dimensions", strings.Join(r.FreeDimensions, ", "))
	fmt.Fprintf(w, "%d nodes, %d initializers, %d parameters, %s of weights\n", r.Nodes, r.Initializers, r.Parameters,
		text.Bytes(r.WeightBytes))
	if r.MACs != nil {
		free := ""
		if len(r.FreeDimensions) > 0 {
			free = ", with free dimensions of 1"
		}
		fmt.Fprintf(w, "a run: %s MACs, %s of activations%s\n", text.Count(*r.MACs), text.Bytes(*r.ActivationBytes),
			free)
	}
	if r.SpecializedShapes > 0 {
		fmt.Fprintf(w, "plans on cpu: a general one, and one for each of up to %d shapes of the inputs: "+
			"SessionOptions.SpecializedShapes\n", r.SpecializedShapes)
	}
	ops := text.SortedFunc(maps.Keys(r.Operators), func(a, b string) int {
		return cmp.Or(r.Operators[b]-r.Operators[a], strings.Compare(a, b))
	})
	for i, o := range ops {
		ops[i] = fmt.Sprintf("%d %s", r.Operators[o], text.Name(o))
	}
	fmt.Fprintln(w, text.Indent(text.Wrap("operators: "+strings.Join(ops, ", "), 88), "  "))
	for _, p := range slices.Sorted(maps.Keys(r.Providers)) {
		problem, ok := unavailable(p, r.Providers[p])
		if !ok {
			problem, _, _ = strings.Cut(r.Providers[p], "\n")
		}
		fmt.Fprintf(w, "provider %s: %s\n", p, text.Name(problem))
	}
	if r.UnknownSizes != "" {
		fmt.Fprintf(w, "the sizes that inputs must have are unknown: choose them by --dimension and --shape. With "+
			"these, %s\n", text.Name(r.UnknownSizes))
	}
	fmt.Fprintf(w, "try it: onward run %s%s\n", text.Name(path), text.Name(r.example))
	if len(r.Layers) == 0 {
		return
	}
	t := text.Table(w)
	fmt.Fprintln(t, "#\toperator\tname\tMACs\tparameters\tzeros\tresult\tshape")
	for _, l := range r.Layers {
		zeros := "-"
		if l.Sparsity != nil {
			zeros = fmt.Sprintf("%.1f%%", 100**l.Sparsity)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", l.Index, text.Name(l.OpType), text.Name(l.Name),
			text.Count(l.MACs), l.Parameters, zeros, text.Bytes(l.OutputBytes),
			strings.ReplaceAll(fmt.Sprint(l.Shape), "-1", "?"))
	}
	t.Flush()
}

// shape returns the shape as text: "[batch,3]", "" if the rank is unknown.
func (a argJSON) shape() string {
	if a.Shape == nil {
		return ""
	}
	dims := make([]string, len(a.Shape))
	for i, d := range a.Shape {
		if dims[i] = "?"; d != nil {
			dims[i] = fmt.Sprint(d)
		}
	}
	return "[" + strings.Join(dims, ",") + "]"
}

// addExample finds the flags that draw inputs of a size that the model accepts.
func (r *inspectJSON) addExample(ctx context.Context, m *onnx.Model) {
	f, err := fit.Of(m, fit.Options{Run: inputs.Run(ctx, m)})
	if err != nil {
		return
	}
	if f.Untested != nil {
		r.UnknownSizes = f.Untested.Error()
	}
	r.example = " --random"
	for _, name := range f.Free {
		r.example += fmt.Sprintf(" --dimension %s=%d", quoted(name), f.Dimensions[name])
	}
	for _, a := range r.Inputs {
		switch {
		case !strings.HasPrefix(a.Type, "tensor("):
			r.example += " --input " + quoted(a.Name) + "=@file.pb"
		case a.Shape == nil:
			r.example += " --shape " + quoted(a.Name) + "=1x1"
		case slices.Contains(a.Shape, nil): // free dimensions without names
			var dims []string
			for _, n := range f.Shapes[a.Name] {
				dims = append(dims, strconv.Itoa(n))
			}
			r.example += " --shape " + quoted(a.Name) + "=" + strings.Join(dims, "x")
		}
	}
}

// quoted returns a word of a command line; shells keep it as it is.
func quoted(name string) string {
	if name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_./:-", c)
	}) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// unavailable shortens the error of a provider that this machine cannot use to a line without the
// searched paths. It reports false for another error.
func unavailable(provider, problem string) (string, bool) {
	const most = 120 // characters
	first, _, _ := strings.Cut(problem, "\n")
	_, reason, ok := strings.Cut(first, "provider "+provider+" is not available: ")
	if !ok {
		return "", false
	}
	reason = strings.TrimSuffix(reason, "; looked at:")
	if runes := []rune(reason); len(runes) > most {
		reason = string(runes[:most]) + "…"
	}
	return "not available: " + reason + "; onward doctor has the details", true
}
