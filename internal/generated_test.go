package internal

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// generatedLine marks generated files (https://go.dev/s/generatedcode).
var generatedLine = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// TestGeneratedFileNames checks that the names of generated Go and assembly files, and of no
// others, begin with z_, and that each names its generator, a file of the repository. Files of
// protoc are exempt: their names end in .pb.go.
func TestGeneratedFileNames(t *testing.T) {
	generator := regexp.MustCompile(`[\w./]+\.(go|py)\b`)
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if strings.HasPrefix(name, ".") && name != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".s", ".h"}, filepath.Ext(name)) || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		header, err := leadingComment(path)
		if err != nil {
			return err
		}
		generated := slices.ContainsFunc(header, generatedLine.MatchString)
		if generated != strings.HasPrefix(name, "z_") {
			t.Errorf("%s: generated %v, but the names of generated files, and of no others, begin with z_",
				path, generated)
		}
		if !generated {
			return nil
		}
		found++
		generators := generator.FindAllString(strings.Join(header, "\n"), -1)
		if len(generators) == 0 {
			t.Errorf("%s: the header names no generator file", path)
		}
		for _, g := range generators {
			if _, err := os.Stat(filepath.Join("..", g)); err != nil {
				t.Errorf("%s: the header names generator %s: %v", path, g, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no generated files found")
	}
}

// leadingComment returns the lines before the first line of code.
func leadingComment(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if line := s.Text(); line != "" && !strings.HasPrefix(line, "//") {
			break
		}
		lines = append(lines, s.Text())
	}
	return lines, s.Err()
}
