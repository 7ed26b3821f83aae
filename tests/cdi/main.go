// SPDX-License-Identifier: Apache-2.0

// Command cdi checks a file by the schema of the Container Device Interface, reads it as container
// engines do, and prints the names of its devices. It is a module of its own: nothing else needs
// what it is made of.
package main

import (
	"errors"
	"fmt"
	"os"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/schema"
)

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := schema.BuiltinSchema().ValidateData(text); err != nil {
		return fmt.Errorf("%s: schema: %w", file, err)
	}
	spec, err := cdi.ReadSpec(file, 0)
	if err != nil {
		return err
	}
	if spec == nil {
		return errors.New("no such file")
	}
	for _, d := range spec.Devices {
		fmt.Printf("%s=%s\n", spec.Kind, d.Name)
	}
	return nil
}
