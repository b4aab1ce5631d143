package openvino_test

import (
	"reflect"
	"testing"

	"github.com/onward-ml/onward/driver"
)

// Package driver lists the names that this package registers, for programs that lack its import.
func TestNamesAreListed(t *testing.T) {
	const path = "github.com/onward-ml/onward/provider/openvino"
	found := 0
	for _, name := range driver.AllProviders() {
		p := driver.Lookup(name)
		registered := p != nil && reflect.TypeOf(p).PkgPath() == path
		listed, _ := driver.PackageOf(name)
		if registered != (listed == path) {
			t.Errorf("%s: package driver lists it for %q; registered here: %v", name, listed, registered)
		}
		if registered {
			found++
		}
	}
	if found == 0 {
		t.Error("this package registers no provider")
	}
}
