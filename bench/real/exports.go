package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/internal/testing/store"
)

//go:embed export.py
var script []byte

// groups lists the groups of export.py, each with libraries of its own.
var groups = []string{"torch", "trees", "tensorflow", "paddle"}

// export is an entry of GROUP.json, which export.py writes.
type export struct {
	Name        string     `json:"name"`
	Exporter    string     `json:"exporter"`
	Sizes       [][]string `json:"sizes"` // NAME=1x3x224x224
	NotExported string     `json:"not_exported"`
}

// exportsFolder returns the folder of a group's models in the cache. Another script has another
// folder.
func exportsFolder(group string) (string, error) {
	sum := sha256.Sum256(script)
	return store.Path(fmt.Sprintf("real-exports-%s-%x", group, sum[:8]))
}

// makeExports exports the models of a group by a Python that has its libraries.
func makeExports(ctx context.Context, group, python string) error {
	dir, err := exportsFolder(group)
	if err != nil {
		return err
	}
	_, err = store.Install(dir, "", func(tmp string) (store.Record, error) {
		cmd := exec.CommandContext(ctx, python, "-", group, tmp)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(script)), os.Stderr, os.Stderr
		r := store.Record{Source: "export.py " + group, Archive: fmt.Sprintf("%x", sha256.Sum256(script))}
		if err := cmd.Run(); err != nil {
			return r, fmt.Errorf("%s export.py %s: %w", python, group, err)
		}
		return r, nil
	})
	return err
}

// exports returns the entries of a group's models that are in the cache, and their folder. The
// error is one of package fs if they are not.
func exports(group string) (dir string, list []export, err error) {
	if dir, err = exportsFolder(group); err != nil {
		return "", nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, group+".json"))
	if err != nil {
		return "", nil, err
	}
	return dir, list, json.Unmarshal(data, &list)
}

// exportRows returns a row for each size of the exported models, and a sentence for each model and
// group that is missing.
func exportRows(s *selection) (rows []*measure.Row, missing []string, err error) {
	for _, group := range groups {
		dir, list, err := exports(group)
		if errors.Is(err, os.ErrNotExist) {
			missing = append(missing,
				fmt.Sprintf("exports of the group %s are not made; make real-exports makes them", group))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, x := range list {
			if x.NotExported != "" {
				missing = append(missing,
					fmt.Sprintf("%s: %s does not export it: %s", x.Name, x.Exporter, brief(x.NotExported)))
				continue
			}
			for _, shapes := range x.Sizes {
				z := size{shapes: shapes}
				name := fmt.Sprintf("%s, %s, %s", x.Exporter, x.Name, &z)
				r, err := s.row(name, filepath.Join(dir, x.Name+".onnx"), &z)
				if err != nil {
					return nil, nil, err
				}
				if r != nil {
					rows = append(rows, r)
				}
			}
		}
	}
	return rows, missing, nil
}
