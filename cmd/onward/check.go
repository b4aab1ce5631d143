package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/onnx"
)

type checkJSON struct {
	Valid    bool              `json:"valid"`
	Errors   []string          `json:"errors"`
	Runs     map[string]bool   `json:"runs"`
	Problems map[string]string `json:"problems"`
}

func checkCommand() *cobra.Command {
	var asJSON bool
	var own session.ProviderOptions
	c := &cobra.Command{
		Use:   "check MODEL",
		Short: "Check that a model is valid ONNX and that providers can run it",
		Long: "Check that a model is valid ONNX and that each provider can run it. All errors are listed.\n" +
			"The exit code is 1 if the model is invalid or the provider cpu cannot run it.",
		Example: "  onward check model.onnx\n  onward check model.onnx --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := own.Named(); err != nil {
				return err
			}
			r := checkJSON{Valid: true, Errors: []string{}, Runs: map[string]bool{}, Problems: map[string]string{}}
			m, err := modelfile.Load(args[0])
			if err != nil {
				var parse *onnx.ParseError
				if !asJSON || !errors.As(err, &parse) {
					return err
				}
				r.Valid, r.Errors = false, []string{err.Error()}
			} else {
				defer m.Close()
				examine(cmd.Context(), args[0], m, &r, own)
			}
			w := cmd.OutOrStdout()
			if asJSON {
				if err := text.JSON(w, r); err != nil {
					return err
				}
			} else {
				if r.Valid {
					fmt.Fprintln(w, "valid ONNX")
				} else {
					fmt.Fprintf(w, "not valid ONNX: %d error(s)\n", len(r.Errors))
					for _, e := range r.Errors {
						fmt.Fprintf(w, "  %s\n", text.Escape(e))
					}
				}
				for _, p := range onward.Providers() {
					if problem, ok := unavailable(p, r.Problems[p]); ok {
						fmt.Fprintf(w, "%s: %s\n", p, text.Name(problem))
					} else if r.Runs[p] {
						fmt.Fprintf(w, "%s: runs it\n", p)
					} else {
						fmt.Fprintf(w, "%s: cannot run it: %s\n", p, text.Indent(r.Problems[p], "  "))
					}
				}
			}
			if !r.Valid || !r.Runs["cpu"] {
				return cli.Printed{Err: errors.New("the model has errors")}
			}
			return nil
		},
	}
	session.OptionFlag(c.Flags(), &own)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func examine(ctx context.Context, path string, m *onnx.Model, r *checkJSON, own session.ProviderOptions) {
	if err := onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema}); err != nil {
		r.Valid = false
		var all *onnx.CheckErrors
		if errors.As(err, &all) {
			for _, e := range all.Errors {
				r.Errors = append(r.Errors, e.Error())
			}
			if all.Omitted > 0 {
				r.Errors = append(r.Errors, fmt.Sprintf("and %d more", all.Omitted))
			}
		} else {
			r.Errors = append(r.Errors, err.Error())
		}
	}
	for p, err := range tryProviders(ctx, path, m, own, true) {
		r.Runs[p] = err == nil
		if err != nil {
			r.Problems[p] = err.Error()
		}
	}
}
