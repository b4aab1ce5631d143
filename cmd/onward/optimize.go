package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/optimization"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

// optimizeJSON is the output of --json.
type optimizeJSON struct {
	Model  string                    `json:"model"`
	Output string                    `json:"output,omitempty"`
	Level  onward.OptimizationLevel  `json:"level"`
	Before int                       `json:"nodes_before"` // in all graphs
	After  int                       `json:"nodes_after"`
	Passes []onward.OptimizationEdit `json:"passes"`
}

func optimizeCommand() *cobra.Command {
	var (
		f               optimization.Flags
		output, weights string
		explain, asJSON bool
	)
	var passes strings.Builder
	w := text.Table(&passes)
	for _, p := range onward.OptimizationPasses() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", p.Name, p.Level, p.Doc)
	}
	w.Flush()
	c := &cobra.Command{
		Use:   "optimize MODEL",
		Short: "Optimize a model and list the changes",
		Long: `Optimize a model as the provider cpu does at load, and save it as ONNX. Fused operators
become operators of ONNX or of ONNX Runtime (domain com.microsoft), so that ONNX Runtime
runs the result too. ONNX cannot express packed weights and blocked
layouts, so the level all saves the same model as extended. Functions are inlined.

The passes, each with the lowest level that includes it:
` + passes.String(),
		Example: `  onward optimize model.onnx -o fast.onnx
  onward optimize model.onnx --level basic --disable cse --explain
  onward optimize model.onnx -o fixed.onnx --dimension batch=1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.Options()
			if err != nil {
				return err
			}
			if weights != "" && output == "" {
				return cli.Usagef("--external-data needs --output")
			}
			m, err := modelfile.Load(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if output != "" {
				if err := modelfile.CheckOutput(args[0], m, output, weights); err != nil {
					return err
				}
			}
			r, edits, err := onward.OptimizeModel(cmd.Context(), m, o)
			if err != nil {
				return err
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			if output != "" {
				if err := modelfile.Write(output, r, weights); err != nil {
					return err
				}
			}
			s := optimizeJSON{Model: args[0], Output: output, Level: o.OptimizationLevel,
				Before: modelfile.Nodes(m.Graph), After: modelfile.Nodes(r.Graph), Passes: edits}
			if s.Passes == nil {
				s.Passes = []onward.OptimizationEdit{}
			}
			if asJSON {
				return text.JSON(cmd.OutOrStdout(), s)
			}
			printOptimized(cmd.OutOrStdout(), &s, explain)
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVarP(&output, "output", "o", "", "write the optimized model to this file")
	flags.StringVar(&weights, "external-data", "", "store the weights in this file next to the output")
	f.Register(flags)
	flags.BoolVar(&explain, "explain", false, "list the nodes that every pass removed, added and changed")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printOptimized(w io.Writer, r *optimizeJSON, explain bool) {
	t := text.Table(w)
	if len(r.Passes) > 0 && !explain {
		fmt.Fprintln(t, "pass\tgraph\tedits\tnodes")
	}
	for _, e := range r.Passes {
		if !explain {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d -> %d\n", e.Pass, text.Name(e.Graph), e.Edits, e.Before, e.After)
			continue
		}
		fmt.Fprintf(t, "%s, graph %s: %d -> %d nodes\n", e.Pass, text.Name(e.Graph), e.Before, e.After)
		for _, list := range []struct {
			mark  string
			nodes []string
		}{{"-", e.Removed}, {"+", e.Added}, {"~", e.Changed}} {
			for _, n := range list.nodes {
				fmt.Fprintf(t, "  %s %s\n", list.mark, text.Name(n))
			}
		}
	}
	t.Flush()
	fmt.Fprintf(w, "%d -> %d nodes\n", r.Before, r.After)
	if r.Output != "" {
		fmt.Fprintf(w, "written to %s\n", text.Name(r.Output))
	}
}
