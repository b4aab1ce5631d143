package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// optimizeJSON is what --json prints.
type optimizeJSON struct {
	Model  string                    `json:"model"`
	Output string                    `json:"output,omitempty"`
	Level  onward.OptimizationLevel  `json:"level"`
	Before int                       `json:"nodes_before"` // in all graphs
	After  int                       `json:"nodes_after"`
	Passes []onward.OptimizationEdit `json:"passes"`
}

// optimizeFlags are those that say how a model is optimized.
type optimizeFlags struct {
	level   string
	disable []string
	dims    []string
}

func (f *optimizeFlags) options() (*onward.SessionOptions, error) {
	level, err := onward.ParseOptimizationLevel(f.level)
	if err != nil {
		return nil, usagef("--level is %q, want none, basic, extended or all", f.level)
	}
	o := &onward.SessionOptions{OptimizationLevel: level, DisabledPasses: f.disable, FreeDimensions: map[string]int64{}}
	var names []string
	for _, p := range onward.OptimizationPasses() {
		names = append(names, p.Name)
	}
	for _, d := range f.disable {
		if !slices.Contains(names, d) {
			return nil, usagef("there is no pass %q; there are %s", d, strings.Join(names, ", "))
		}
	}
	for _, d := range f.dims {
		name, size, ok := strings.Cut(d, "=")
		n, err := strconv.ParseInt(size, 10, 64)
		if !ok || name == "" || err != nil || n < 0 {
			return nil, usagef("--dimension is %q, want NAME=SIZE", d)
		}
		o.FreeDimensions[name] = n
	}
	return o, nil
}

func optimizeCommand() *cobra.Command {
	var (
		f               optimizeFlags
		output, weights string
		explain, asJSON bool
	)
	var passes strings.Builder
	w := tabwriter.NewWriter(&passes, 0, 0, 2, ' ', 0)
	for _, p := range onward.OptimizationPasses() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", p.Name, p.Level, p.Doc)
	}
	w.Flush()
	c := &cobra.Command{
		Use:   "optimize MODEL",
		Short: "Rewrite a model to run faster, and say what changed",
		Long: `Rewrite a model as the engine cpu does when it loads it, and save it as ONNX. Fused
operators become operators of ONNX or of ONNX Runtime (domain com.microsoft), so the
result runs there too. Packed weights and blocked layouts have no form in ONNX: what
the level all has beyond extended is not saved. Functions are inlined.

The passes, and the first level that has them:
` + passes.String(),
		Example: `  onward optimize model.onnx -o fast.onnx
  onward optimize model.onnx --level basic --disable cse --explain
  onward optimize model.onnx -o fixed.onnx --dimension batch=1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			if weights != "" && output == "" {
				return usagef("--external-data needs --output")
			}
			m, err := loadModel(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			r, edits, err := onward.OptimizeModel(cmd.Context(), m, o)
			if err != nil {
				return err
			}
			if output != "" {
				if err := onnx.WriteFile(output, r, &onnx.WriteOptions{ExternalData: weights}); err != nil {
					return err
				}
			}
			s := optimizeJSON{Model: args[0], Output: output, Level: o.OptimizationLevel, Before: countNodes(m.Graph), After: countNodes(r.Graph), Passes: edits}
			if s.Passes == nil {
				s.Passes = []onward.OptimizationEdit{}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printOptimized(cmd.OutOrStdout(), &s, explain)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&output, "output", "o", "", "write the optimized model to this file")
	flags.StringVar(&weights, "external-data", "", "keep the weights in this file beside the output")
	addOptimizeFlags(c, &f)
	flags.BoolVar(&explain, "explain", false, "list the nodes that every pass removed, added and changed")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func addOptimizeFlags(c *cobra.Command, f *optimizeFlags) {
	c.Flags().StringVar(&f.level, "level", "all", "none, basic, extended or all")
	c.Flags().StringArrayVar(&f.disable, "disable", nil, "leave out this pass; repeat for more")
	c.Flags().StringArrayVar(&f.dims, "dimension", nil, "fix a symbolic dimension, NAME=SIZE; repeat for more")
}

// countNodes counts the nodes of a graph and its subgraphs.
func countNodes(g *onnx.Graph) int {
	if g == nil {
		return 0
	}
	n := len(g.Nodes)
	for _, node := range g.Nodes {
		for _, a := range node.Attributes {
			n += countNodes(a.G)
			for _, s := range a.Graphs {
				n += countNodes(s)
			}
		}
	}
	return n
}

func printOptimized(w io.Writer, r *optimizeJSON, explain bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Passes) > 0 && !explain {
		fmt.Fprintln(t, "pass\tgraph\tedits\tnodes")
	}
	for _, e := range r.Passes {
		if !explain {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d -> %d\n", e.Pass, name(e.Graph), e.Edits, e.Before, e.After)
			continue
		}
		fmt.Fprintf(t, "%s, graph %s: %d -> %d nodes\n", e.Pass, name(e.Graph), e.Before, e.After)
		for _, list := range []struct {
			mark  string
			nodes []string
		}{{"-", e.Removed}, {"+", e.Added}, {"~", e.Changed}} {
			for _, n := range list.nodes {
				fmt.Fprintf(t, "  %s %s\n", list.mark, name(n))
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d -> %d nodes\n", r.Before, r.After)
	if r.Output != "" {
		fmt.Fprintf(w, "written to %s\n", name(r.Output))
	}
	return nil
}
