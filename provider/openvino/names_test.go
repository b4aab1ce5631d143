package openvino_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
)

// Package driver lists the names that this package registers, for programs that lack its import.
func TestNamesAreListed(t *testing.T) {
	known := slices.DeleteFunc(driver.AllProviders(), func(name string) bool { n, _, _ := strings.Cut(name, ":"); return n != "openvino" })
	registered := slices.DeleteFunc(driver.Providers(), func(name string) bool { n, _, _ := strings.Cut(name, ":"); return n != "openvino" })
	if len(registered) == 0 || !slices.Equal(known, registered) {
		t.Errorf("package driver lists %v, registered are %v", known, registered)
	}
}
