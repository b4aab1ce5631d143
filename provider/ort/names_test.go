package ort_test

import (
	"testing"

	"github.com/onward-ml/onward/internal/testing/nativetest"
)

func TestNamesAreListed(t *testing.T) {
	nativetest.NamesAreListed(t, "github.com/onward-ml/onward/provider/ort")
}
