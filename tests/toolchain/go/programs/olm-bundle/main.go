// olm-bundle validates the bundle of an operator with the validators of the Operator Framework: what OLM
// itself requires, and what the catalogue of OperatorHub.io requires. It fails if one of them warns.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
)

func main() {
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator,
		validation.ObjectValidator,
	)
	isValid := true
	// The rules of roles have no API version, so a validator takes their resources for those of an old one.
	const versionless = "this bundle is using APIs which were deprecated and removed in v1.25"
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, problem := range append(result.Errors, result.Warnings...) {
			if strings.Contains(problem.Error(), versionless) {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s: %s\n", result.Name, problem.Error())
			isValid = false
		}
	}
	if !isValid {
		os.Exit(1)
	}
}
