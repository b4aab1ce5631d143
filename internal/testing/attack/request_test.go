package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestRequestsGrowEachPart checks that the long part of requests is each text in turn, and that the
// requests are messages.
func TestRequestsGrowEachPart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 1 << 12
	check := func(method string) []byte {
		b := requestFlood(r, method, n)
		for rest := b; len(rest) > 0; {
			_, _, k := protowire.ConsumeField(rest)
			if k < 0 {
				t.Fatalf("%s: %q is no message", method, b)
			}
			rest = rest[k:]
		}
		return b
	}
	for _, method := range grpcMethods {
		check(method)
	}
	for _, path := range textPaths {
		check(path[strings.LastIndex(path, "/")+1:])
	}
	for _, part := range []string{"sequence_id", "shared_memory_region", "classification", "x", "12345678"} {
		missing := 0
		for range 1000 {
			if b := check("ModelInfer"); len(b) > n/2 && bytes.Count(b, []byte(part)) == 0 {
				missing++
			}
		}
		if missing == 0 {
			t.Errorf("%q is never replaced", part)
		}
	}
}
