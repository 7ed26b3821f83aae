// SPDX-License-Identifier: Apache-2.0

// Command races prints packages with tests: "race PACKAGE" if they are to be run with the race
// detector, and "none PACKAGE" if it would find nothing: tests run up to ten times slower with it,
// and link twice as long.
//
// A package can't race if neither it nor its tests start goroutines, or have channels, sync, unsafe
// or C, and if no package of the module that they use starts goroutines. Tests that run in parallel
// are believed to share nothing.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Usage: races [PACKAGE]...\n")
	}
	flag.Parse()
	list, err := list(".", flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "races:", err)
		os.Exit(1)
	}
	for _, p := range list {
		if p.races {
			fmt.Println("race", p.path)
		} else {
			fmt.Println("none", p.path)
		}
	}
}
