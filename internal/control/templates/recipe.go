package templates

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// recipes are the built-in ways to make a template, with the shape that the template gets. The node knows how to follow them.
var recipes = map[string]record.Shape{
	"base": {VCPUs: 1, MemoryBytes: 512 * record.MiB, DiskBytes: 4096 * record.MiB},
	"mini": {VCPUs: 1, MemoryBytes: 128 * record.MiB, DiskBytes: 64 * record.MiB},
}

func shapeOf(recipe string) (record.Shape, error) {
	if recipe == "" {
		return record.Shape{}, space.FieldErrorf("recipe", "is required: base or mini")
	}
	shape, ok := recipes[recipe]
	if !ok {
		return record.Shape{}, space.FieldErrorf("recipe", "%q is not a recipe: base or mini", space.Clip(recipe))
	}
	return shape, nil
}
