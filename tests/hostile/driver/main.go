// SPDX-License-Identifier: Apache-2.0

// Command driver is a hostile guest, with its driver and library: it attacks a device process to
// which it connects.
package main

import (
	"os"

	"github.com/paracuda/paracuda/tests/hostile"
)

func main() { os.Exit(hostile.Driver().Main(os.Args[1:], os.Stdout, os.Stderr)) }
