package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
)

func graphCommand() *cobra.Command {
	var (
		f                 optimizeFlags
		format            string
		optimized, asJSON bool
	)
	c := &cobra.Command{
		Use:   "graph MODEL",
		Short: "Draw a model's graph",
		Long: `Write a model's graph, subgraphs included, as text, as JSON, in the language of
Graphviz (dot), or as a flowchart of Mermaid. With --optimized it is the graph that
"onward optimize" makes.`,
		Example: `  onward graph model.onnx
  onward graph model.onnx --format dot --optimized | dot -Tsvg -o model.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				if cmd.Flags().Changed("format") && format != "json" {
					return usagef("--json is --format json, not %s", format)
				}
				format = "json"
			}
			write := map[string]func(*backend.Sequence) error{
				"text":    func(s *backend.Sequence) error { return printText(cmd, s.Text()) },
				"dot":     func(s *backend.Sequence) error { return printText(cmd, s.Dot(true)) },
				"mermaid": func(s *backend.Sequence) error { return printText(cmd, s.Mermaid()) },
				"json":    func(s *backend.Sequence) error { return printJSON(cmd.OutOrStdout(), s) },
			}[format]
			if write == nil {
				return usagef("--format is %q, want text, json, dot or mermaid", format)
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			m, err := loadModel(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if optimized {
				if m, _, err = onward.OptimizeModel(cmd.Context(), m, o); err != nil {
					return err
				}
			}
			s, err := backend.SequenceOf(m)
			if err != nil {
				return err
			}
			return write(s)
		},
	}
	c.Flags().StringVarP(&format, "format", "f", "text", "text, json, dot or mermaid")
	c.Flags().BoolVar(&optimized, "optimized", false, "the graph after optimization")
	addOptimizeFlags(c, &f)
	c.Flags().BoolVar(&asJSON, "json", false, "the same as --format json")
	return c
}

// printText writes text that is safe for a terminal but for what Unicode has.
func printText(cmd *cobra.Command, text string) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), clean(text))
	return err
}
