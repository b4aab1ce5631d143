package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/optimization"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

func graphCommand() *cobra.Command {
	var (
		f                 optimization.Flags
		format, html      string
		optimized, asJSON bool
	)
	c := &cobra.Command{
		Use:   "graph MODEL",
		Short: "Write a model's graph as a page, text, JSON, Graphviz or Mermaid",
		Long: `Write a model's graph and its subgraphs as text, as JSON, for Graphviz (dot) or as a
Mermaid flowchart. With --optimized, write the graph that "onward optimize" makes.

--html writes a page for a browser: an interactive drawing with the attributes, types,
weights and costs of nodes. Modules and repeated blocks are closed at first.`,
		Example: `  onward graph model.onnx
  onward graph model.onnx --html model.html
  onward graph model.onnx --format dot --optimized | dot -Tsvg -o model.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && html != "" {
				return cli.Usagef("--html writes a page, not JSON: leave one of them out")
			}
			if asJSON {
				if cmd.Flags().Changed("format") && format != "json" {
					return cli.Usagef("--json is --format json, not %s", format)
				}
				format = "json"
			}
			if html != "" && cmd.Flags().Changed("format") {
				return cli.Usagef("--html writes a page, not --format %s: leave one of them out", format)
			}
			w := cmd.OutOrStdout()
			write := func(drawing string) error {
				_, err := fmt.Fprint(w, text.Escape(drawing))
				return err
			}
			draw := map[string]func(*backend.Sequence) error{
				"text":    func(s *backend.Sequence) error { return write(s.Text()) },
				"dot":     func(s *backend.Sequence) error { return write(s.Dot(true)) },
				"mermaid": func(s *backend.Sequence) error { return write(s.Mermaid()) },
				"json":    func(s *backend.Sequence) error { return text.JSON(w, s) },
			}[format]
			if draw == nil {
				return cli.Usagef("--format is %q, want text, json, dot or mermaid", format)
			}
			o, err := f.Options()
			if err != nil {
				return err
			}
			m, err := modelfile.Load(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if optimized {
				if m, _, err = onward.OptimizeModel(cmd.Context(), m, o); err != nil {
					return err
				}
			}
			if pagesLinked && html != "" {
				return writeGraphPage(cmd.Context(), html, args[0], m)
			}
			s, err := backend.SequenceOf(m)
			if err != nil {
				return err
			}
			return draw(s)
		},
	}
	c.Flags().StringVarP(&format, "format", "f", "text", "text, json, dot or mermaid")
	c.Flags().BoolVar(&optimized, "optimized", false, "write the optimized graph")
	f.Register(c.Flags())
	htmlFlag(c.Flags(), &html)
	c.Flags().BoolVar(&asJSON, "json", false, "the same as --format json")
	return c
}
