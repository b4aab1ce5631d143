//go:build race

package onward_test

const raceEnabled = true
