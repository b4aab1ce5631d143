//go:build !core && !server

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFlagsOfManifests checks that the manifests pass flags that the verbs have.
func TestFlagsOfManifests(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^\s+- (--[a-z-]+)|"(--[a-z-]+)"`)
	for file, verb := range map[string]string{
		"Dockerfile": "serve", "kserve/clusterservingruntime.yaml": "serve", "kubernetes/deployment.yaml": "serve", "kubernetes/map.yaml": "map",
	} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		code, help, _ := invoke(t, verb, "--help")
		if code != exitOK {
			t.Fatalf("%s --help: exit code %d", verb, code)
		}
		found := flag.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			if f := m[1] + m[2]; !strings.Contains(help, f+" ") {
				t.Errorf("%s passes %s, which onward %s lacks", file, f, verb)
			}
		}
		if len(found) == 0 {
			t.Errorf("%s passes no flags", file)
		}
	}
}
