package onward_test

import (
	"os"
	"testing"

	"github.com/onward-ml/onward/internal/exec"
)

func TestMain(m *testing.M) {
	exec.CrashOnPanic()
	os.Exit(m.Run())
}
