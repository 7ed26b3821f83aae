// SPDX-License-Identifier: Apache-2.0

// Command frontend is a hostile front end: it attacks a device process to which it connects.
package main

import (
	"os"

	"github.com/paracuda/paracuda/tests/hostile"
)

func main() { os.Exit(hostile.Frontend().Main(os.Args[1:], os.Stdout, os.Stderr)) }
