package reservation

import (
	"berth/api"
	"berth/capacity"
	"berth/filters/query"
)

// single are the columns of one host, which has one attribute, or none if it is "".
type single string

func (single) Free(api.ResourceClass) *query.Column  { return nil }
func (single) Total(api.ResourceClass) *query.Column { return nil }
func (single) Instances() *query.Column              { return nil }
func (single) AZ() *query.Column                     { return nil }
func (single) Name() *query.Column                   { return nil }

func (s single) Attribute(string) *query.Column {
	c := query.NewColumn(1)
	switch v := capacity.ParseValue(string(s)); {
	case s == "":
	case v.Kind == capacity.KindNumber:
		c.SetMicros(0, v.Number)
	case v.Kind == capacity.KindBool:
		c.SetBool(0, v.Number == 1)
	default:
		c.SetText(0, v.Text)
	}
	return c
}

// keeps reports whether a query passes a host with one attribute.
func keeps(q *query.Query, has string) bool {
	pass := capacity.NewSet(1)
	pass.Add(0)
	q.Keep(single(has), &pass)
	for range pass.All() {
		return true
	}
	return false
}
