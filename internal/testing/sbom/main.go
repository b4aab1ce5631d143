// Command sbom lists the modules that a Go program was built from, as JSON in the form of CycloneDX 1.5
// (https://cyclonedx.org/docs/1.5/json/).
//
//	sbom PROGRAM > PROGRAM.sbom.json
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err == nil {
		err = write(os.Stdout, info)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

func write(w io.Writer, info *debug.BuildInfo) error {
	components := []component{{"library", "std", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/std@" + info.GoVersion, nil}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		// go.sum's hash of a module is the SHA-256 of the list of its files.
		if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			b, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return fmt.Errorf("module %s: hash %q: %w", m.Path, m.Sum, err)
			}
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(b)}}
		}
		components = append(components, c)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	main := component{"application", info.Main.Path, info.Main.Version, "pkg:golang/" + info.Main.Path + "@" + info.Main.Version, nil}
	return e.Encode(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{"component": main}, "components": components})
}
