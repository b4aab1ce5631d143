//go:build !unix

package preset_test

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
