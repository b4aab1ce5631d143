package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
)

// leftOut returns stubs for the verbs that build tags left out, whose error says so.
func leftOut(linked []*cobra.Command) []*cobra.Command {
	var stubs []*cobra.Command
	for _, name := range []string{"calibrate", "conformance", "edit", "embed", "map", "predict", "quantize",
		"serve", "tokenize"} {
		if slices.ContainsFunc(linked, func(c *cobra.Command) bool { return c.Name() == name }) {
			continue
		}
		stubs = append(stubs, &cobra.Command{
			Use:                name,
			Short:              "Not part of this build",
			Hidden:             true,
			DisableFlagParsing: true,
			RunE:               func(*cobra.Command, []string) error { return cli.NotLinked{What: "onward " + name} },
		})
	}
	return stubs
}
