package native

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/driver"
)

// Kind is the type of an option: it checks a value and returns the text for the runtime.
type Kind func(string) (string, error)

// Text accepts any text.
func Text(s string) (string, error) { return s, nil }

// Integer accepts an integer of 64 bits.
func Integer(s string) (string, error) {
	if _, err := strconv.ParseInt(s, 10, 64); err != nil {
		return "", fmt.Errorf("%q is not an integer", s)
	}
	return s, nil
}

// Count accepts an integer from 0 to 2147483647.
func Count(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 31); err != nil {
		return "", fmt.Errorf("%q is not an integer from 0 to 2147483647", s)
	}
	return s, nil
}

// Size accepts a number of bytes, an unsigned integer of 64 bits.
func Size(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 64); err != nil {
		return "", fmt.Errorf("%q is not a number of bytes", s)
	}
	return s, nil
}

// Boolean accepts what strconv.ParseBool accepts, and returns yes or no.
func Boolean(yes, no string) Kind {
	return func(s string) (string, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return "", fmt.Errorf("%q is neither true nor false", s)
		}
		if b {
			return yes, nil
		}
		return no, nil
	}
}

// OneOf accepts one of the values in any case, and returns it in the case of values.
func OneOf(values ...string) Kind {
	return func(s string) (string, error) {
		for _, v := range values {
			if strings.EqualFold(s, v) {
				return v, nil
			}
		}
		return "", fmt.Errorf("%q is not one of %s", s, strings.Join(values, ", "))
	}
}

// Check returns the option's value for the runtime. The error names the option. Values
// with a NUL are rejected, because C strings cannot contain one.
func Check(provider, name, value string, kind Kind) (string, error) {
	v, err := kind(value)
	if err == nil && strings.ContainsRune(name+v, 0) {
		err = fmt.Errorf("%q contains a NUL", v)
	}
	if err != nil {
		return "", Invalid("option %s of provider %s: %v", name, provider, err)
	}
	return v, nil
}

// Invalid returns an error with the status INVALID_ARGUMENT.
func Invalid(format string, args ...any) error {
	return &driver.StatusError{Code: driver.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
}
