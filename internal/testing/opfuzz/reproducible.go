package opfuzz

import (
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Reproducible fixes rapid's seed and number of checks unless the command line sets them. With
// -short, as for the race detector, a fourth of the checks runs.
func Reproducible(t testing.TB, checks string) {
	t.Helper()
	if n, err := strconv.Atoi(checks); err == nil && testing.Short() {
		checks = strconv.Itoa(max(n/4, 1))
	}
	set := commandLine()
	for name, v := range map[string]string{"rapid.checks": checks, "rapid.seed": "20", "rapid.nofailfile": "true"} {
		if !set[name] {
			old := flag.Lookup(name).Value.String()
			if err := flag.Set(name, v); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = flag.Set(name, old) })
		}
	}
}

// Part returns the number of checks for make test, or with ONWARD_LONG that of the long tests,
// whose first checks are the same.
func Part(part, whole string) string {
	if os.Getenv("ONWARD_LONG") != "" {
		return whole
	}
	return part
}

// commandLine names the flags that were given. Flags count as given from when a test has set them.
var commandLine = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	return set
})
