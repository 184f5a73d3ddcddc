package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"berth/bench/load"
	"berth/bench/score"
)

// curve is a curve, and how one point of it is measured.
type curve struct {
	score.Curve
	xs    []int
	point func(ctx context.Context, x int) (score.Point, error)
}

// pointPatience bounds one point: what takes longer is left out of the curve.
const pointPatience = 4 * time.Minute

// A garbage collection of many standing instances takes longer than a usual measurement, which
// would have all of it or nothing. So they are measured for longer.
const (
	manyStanding = 1_000_000
	manyDuration = 30 * time.Second
)

// curves returns all curves; those of a short run have fewer and smaller points.
func (b *bencher) curves() []curve {
	rate := func(size load.Federation, p load.Plan) func(context.Context) (score.Point, error) {
		return func(ctx context.Context) (score.Point, error) {
			r, err := b.loadFederation(ctx, size, p)
			if err != nil {
				return score.Point{}, err
			}
			return score.Point{Y: r.Rate, CPU: r.CPUMsOperation}, nil
		}
	}
	one := load.Federation{Nodes: 1, Zones: 1, Hosts: rowHosts}
	tree := load.Federation{Nodes: 1, Zones: rowZones, Hosts: rowHosts}
	xs := func(full, short []int) []int {
		if b.short {
			return short
		}
		return full
	}
	return []curve{
		{
			score.Curve{Name: "growth-plan", Title: "A plan of 1,000 over more hosts", X: "hosts", Y: "ms", Goal: "at most linear, 1.05"},
			xs([]int{1_000, 10_000, 30_000, 100_000}, []int{1_000, 10_000}),
			func(_ context.Context, x int) (score.Point, error) {
				return score.Point{Y: b.measurePlan(fleetOf(x), planSlots)}, nil
			},
		},
		{
			score.Curve{Name: "growth-hosts", Title: "Boots of 1 over more hosts, 64 callers", X: "hosts", Y: "boots/s", Goal: "within 20 % from 1,000 to 100,000 hosts"},
			xs([]int{1_000, 10_000, 100_000}, []int{100, 1_000}),
			func(ctx context.Context, x int) (score.Point, error) {
				return rate(load.Federation{Nodes: 1, Zones: 1, Hosts: x}, b.planOf(load.Boots, 1, 64))(ctx)
			},
		},
		{
			score.Curve{Name: "growth-instances", Title: "Boots of 1 beside more instances, 64 callers", X: "standing instances", Y: "boots/s", Goal: "within 20 % up to 1,000,000 instances"},
			xs([]int{1_000, 10_000, 100_000, 1_000_000}, []int{100, 1_000}),
			func(ctx context.Context, x int) (score.Point, error) {
				size := one
				size.Standing = x
				plan := b.planOf(load.Boots, 1, 64)
				if x >= manyStanding {
					plan.Duration = manyDuration
				}
				return rate(size, plan)(ctx)
			},
		},
		{
			score.Curve{Name: "growth-zones", Title: "All-or-nothing boots of 10 over at least 2 of more zones, 32 callers", X: "child zones", Y: "boots/s", Goal: "30 children within 20 % of 10"},
			xs([]int{2, 10, 30}, []int{2, 4}),
			func(ctx context.Context, x int) (score.Point, error) {
				return rate(load.Federation{Nodes: 1, Zones: x, Hosts: rowHosts}, b.planOf(load.Federated, 10, 32))(ctx)
			},
		},
		{
			score.Curve{Name: "growth-callers", Title: "Boots of 1 in one zone, more callers", X: "callers", Y: "boots/s"},
			xs([]int{1, 16, 64, 256, 1024}, []int{1, 64}),
			func(ctx context.Context, x int) (score.Point, error) {
				return rate(one, b.planOf(load.Boots, 1, x))(ctx)
			},
		},
		{
			score.Curve{Name: "growth-federated-callers", Title: "All-or-nothing boots of 10 over at least 2 of 10 zones, more callers", X: "callers", Y: "boots/s", Goal: "at 512 callers at least as many as at 32"},
			xs([]int{1, 8, 32, 128, 512}, []int{1, 32}),
			func(ctx context.Context, x int) (score.Point, error) {
				return rate(tree, b.planOf(load.Federated, 10, x))(ctx)
			},
		},
	}
}

// measureCurve measures all points of c. A point that could not be measured is left out, and
// said.
func (b *bencher) measureCurve(ctx context.Context, c *curve) error {
	for _, x := range c.xs {
		limited, cancel := context.WithTimeout(ctx, pointPatience)
		p, err := c.point(limited, x)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			b.note("%s at %d: left out: %v", c.Name, x, err)
			continue
		}
		p.X = float64(x)
		c.Points = append(c.Points, p)
		b.note("%s: %s at %d", c.Name, score.Number(p.Y), x)
	}
	return nil
}

// Size of an image.
const (
	imageWidth  = 6 * vg.Inch
	imageHeight = 3.5 * vg.Inch
)

// drawCurve writes the image of c, with logarithmic axes, into a folder.
func drawCurve(c *score.Curve, folder string) error {
	if len(c.Points) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	var points plotter.XYs
	for _, at := range c.Points {
		if at.X > 0 && at.Y > 0 {
			points = append(points, plotter.XY{X: at.X, Y: at.Y})
		}
	}
	if len(points) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("drawing %s: %w", c.Name, err)
	}
	p.Add(plotter.NewGrid(), line, dots)
	// A curve that is flat shall look flat: the axis spans a factor of ten around it at least.
	p.Y.Min, p.Y.Max = p.Y.Min/3, p.Y.Max*3
	if err = os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documents are for everybody
		return fmt.Errorf("drawing %s: %w", c.Name, err)
	}
	if err = p.Save(imageWidth, imageHeight, filepath.Join(folder, c.Name+".svg")); err != nil {
		return fmt.Errorf("drawing %s: %w", c.Name, err)
	}
	return nil
}
