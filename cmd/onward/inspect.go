package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
)

type argJSON struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []any  `json:"shape"` // numbers, names, or null; null if the rank is unknown
}

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
	Providers    map[string]string    `json:"providers"` // "ok", or the error
}

func inspectCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "inspect MODEL",
		Short:   "Show a model's inputs, outputs, metadata, opsets, operators and size",
		Long:    "Show a model's inputs, outputs, metadata, opsets, operators and size, and which provider can run it.",
		Example: "  onward inspect model.onnx\n  onward inspect digits.onnx --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := modelfile.Load(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			r, err := inspect(m)
			if err != nil {
				return err
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), r)
			}
			r.print(cmd.OutOrStdout())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func inspect(m *onnx.Model) (*inspectJSON, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	r := &inspectJSON{Inputs: args(d.Inputs), Overridable: args(d.OverridableInitializers), Outputs: args(d.Outputs), Metadata: d.Metadata,
		Operators: map[string]int{}, Functions: len(m.Functions), Providers: map[string]string{}}
	r.count(m.Graph)
	for _, f := range m.Functions {
		r.countNodes(f.Nodes)
	}
	for p, err := range session.TryProviders(m) {
		r.Providers[p] = "ok"
		if err != nil {
			r.Providers[p] = err.Error()
		}
	}
	return r, nil
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

func (r *inspectJSON) print(w io.Writer) {
	list := func(title string, args []argJSON) {
		if len(args) == 0 {
			return
		}
		fmt.Fprintln(w, title)
		for _, a := range args {
			shape := ""
			if a.Shape != nil {
				dims := make([]string, len(a.Shape))
				for i, d := range a.Shape {
					if dims[i] = "?"; d != nil {
						dims[i] = fmt.Sprint(d)
					}
				}
				shape = "[" + strings.Join(dims, ",") + "]"
			}
			fmt.Fprintf(w, "  %s: %s%s\n", text.Name(a.Name), a.Type, text.Name(shape))
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
	fmt.Fprintf(w, "IR version: %d, model version: %d\n", m.IRVersion, m.Version)
	for _, d := range slices.Sorted(maps.Keys(m.Opsets)) {
		n := d
		if n == "" {
			n = "ai.onnx"
		}
		fmt.Fprintf(w, "opset: %s %d\n", text.Name(n), m.Opsets[d])
	}
	for _, k := range slices.Sorted(maps.Keys(m.Custom)) {
		fmt.Fprintf(w, "metadata %s: %s\n", text.Name(k), text.Name(m.Custom[k]))
	}
	list("inputs", r.Inputs)
	list("overridable initializers", r.Overridable)
	list("outputs", r.Outputs)
	fmt.Fprintf(w, "%d nodes, %d initializers, %d parameters, %.1f MB of weights\n", r.Nodes, r.Initializers, r.Parameters, float64(r.WeightBytes)/1e6)
	ops := slices.SortedFunc(maps.Keys(r.Operators), func(a, b string) int {
		if d := r.Operators[b] - r.Operators[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, o := range ops {
		fmt.Fprintf(w, "  %6d %s\n", r.Operators[o], text.Name(o))
	}
	for _, p := range slices.Sorted(maps.Keys(r.Providers)) {
		fmt.Fprintf(w, "provider %s: %s\n", p, text.Indent(r.Providers[p], "  "))
	}
}
