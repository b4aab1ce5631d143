//go:build man

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The tag man adds a verb for .ci/release, so that the released programs do
// not contain the converter.
func init() {
	large = append(large, func() *cobra.Command {
		return &cobra.Command{Use: "man DIR", Short: "Write manual pages", Args: cobra.ExactArgs(1), Hidden: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				cmd.Root().DisableAutoGenTag = true
				return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "ONWARD", Section: "1", Source: "Onward"},
					args[0])
			}}
	})
}
