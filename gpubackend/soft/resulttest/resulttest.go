// SPDX-License-Identifier: Apache-2.0

// Package resulttest fails tests by the results of a driver's calls.
package resulttest

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
)

// OK ends a test whose call failed.
func OK(t testing.TB, result gpubackend.Result) {
	t.Helper()
	Want(t, result, gpubackend.Success)
}

// Want ends a test whose call gave another result.
func Want(t testing.TB, got, want gpubackend.Result) {
	t.Helper()
	if got != want {
		t.Fatalf("result %d, want %d", got, want)
	}
}

// Wait queries until the result isn't NotReady, and returns it.
func Wait(t testing.TB, query func() gpubackend.Result) gpubackend.Result {
	t.Helper()
	const pause = 100 * time.Microsecond
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(pause) {
		if result := query(); result != gpubackend.NotReady {
			return result
		}
	}
	t.Fatal("still not ready")
	return gpubackend.NotReady
}
