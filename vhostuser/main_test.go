// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"fmt"
	"os"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestMain fails the whole run if a descriptor that a session owned is left, or anything else.
func TestMain(m *testing.M) {
	code := leaks.Main(m)
	if n := openFDs.Load(); n != 0 {
		fmt.Fprintf(os.Stderr, "%d descriptors leaked\n", n)
		code = 99
	}
	os.Exit(code)
}
