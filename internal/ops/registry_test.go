package ops

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

func TestHarnessFindsUnknownOperators(t *testing.T) {
	if _, err := optest.Run(t, "NoSuchOperator", 20, nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("error %v for an unknown operator", err)
	}
}
