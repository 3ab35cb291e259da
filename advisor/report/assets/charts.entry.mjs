// What the report's charts need of Vega, and no more: maps, force layouts and word clouds stay out.
import {transforms} from 'vega-dataflow';
import * as data from 'vega-transforms';
import * as view from 'vega-view-transforms';
import * as encode from 'vega-encode';
Object.assign(transforms, data, view, encode);
export {parse} from 'vega-parser';
export {View} from 'vega-view';
export {compile} from 'vega-lite';
export {expressionInterpreter} from 'vega-interpreter';
