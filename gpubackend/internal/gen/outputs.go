// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"

	structures "github.com/paracuda/paracuda/gpubackend/internal/gen/layout"
)

// commandOutputs is what is made from commands.def.
func commandOutputs(a *api, w *wire) ([]output, error) {
	const path = "gpubackend/api/commands.def"
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cuda, err := structures.Numbers(".")
	if err != nil {
		return nil, err
	}
	c, err := parseCommands(path, f, a, w, cuda)
	if err != nil {
		return nil, err
	}
	return []output{
		{"gpubackend/zz_generated_work.go", workGo(a, c)},
		{"gpubackend/command/zz_generated_commands.go", commandsGo(c)},
		{"gpubackend/command/zz_generated_commands_test.go", roundTripsGo(c)},
		{libcuda + "transport/zz_generated_layouts.h", layoutsC(a, c)},
		{libcuda + "context/zz_generated_commands.h", commandsC(c)},
		{libcuda + "test/zz_generated_words.h", whereC(a, c)},
		{"docs/commands.md", commandsDoc(c)},
	}, nil
}

// apiOutputs parses the description of the driver API and returns what is made from it.
func apiOutputs(w *wire) ([]output, error) {
	a, err := parseAPI("gpubackend/api")
	if err != nil {
		return nil, err
	}
	layouts, err := commandOutputs(a, w)
	if err != nil {
		return nil, err
	}
	goFiles := []output{
		{"gpubackend/zz_generated_driver.go", driverGo(a)},
		{"gpubackend/worker/functions/zz_generated_functions.go", dispatchGo(a)},
		{"gpubackend/cuda/driver/zz_generated_calls.go", callsGo(a)},
		{"gpubackend/command/zz_generated_steps.go", stepsGo(a)},
		{"gpubackend/allowed/zz_generated_sets.go", setsGo(a)},
		{"docs/coverage.md", coverageDoc(a)},
	}
	attributes, err := attributeOutputs()
	if err != nil {
		return nil, err
	}
	return slices.Concat(goFiles, layouts, attributes, cOutputs(a)), nil
}
